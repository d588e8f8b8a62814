{{- define "loadstar.name" -}}
{{- if contains "loadstar" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-loadstar" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "loadstar.account" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "loadstar.name" . -}}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{- define "loadstar.selector" -}}
app.kubernetes.io/name: loadstar
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "loadstar.labels" -}}
{{ include "loadstar.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "loadstar.args" -}}
- --host=0.0.0.0
- --port=30000
- --prometheus-host=0.0.0.0
- --prometheus-port=29000
- --log-format=json
- {{ printf "--policy=%s" .Values.policy | quote }}
{{- with .Values.discovery }}
{{- if .enabled }}
- --service-discovery
- {{ printf "--service-discovery-port=%v" .port | quote }}
{{- if ne .namespace "*" }}
- {{ printf "--service-discovery-namespace=%s" (.namespace | default $.Release.Namespace) | quote }}
{{- end }}
{{- if and .prefillSelector .decodeSelector }}
- --vllm-pd-disaggregation
{{- range $k, $v := .prefillSelector }}
- {{ printf "--prefill-selector=%s=%s" $k $v | quote }}
{{- end }}
{{- range $k, $v := .decodeSelector }}
- {{ printf "--decode-selector=%s=%s" $k $v | quote }}
{{- end }}
{{- else }}
{{- range $k, $v := .selector }}
- {{ printf "--selector=%s=%s" $k $v | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range .Values.workers.urls }}
- {{ printf "--worker-urls=%s" . | quote }}
{{- end }}
{{- if .Values.secrets.clientKeys }}
- --client-api-keys-file=/etc/loadstar/clients/keys
{{- end }}
{{- if .Values.secrets.tls }}
- --tls-cert-path=/etc/loadstar/tls/tls.crt
- --tls-key-path=/etc/loadstar/tls/tls.key
{{- end }}
{{- if .Values.peers.nats }}
- {{ printf "--peers-nats=%s" (join "," .Values.peers.nats) | quote }}
{{- end }}
{{- if .Values.peers.embedded }}
- {{ printf "--peers-nats-routes=%s-peers.%s.svc:6222" (include "loadstar.name" .) .Release.Namespace | quote }}
{{- end }}
{{- if or .Values.peers.nats .Values.peers.embedded }}
- {{ printf "--peers-group=%s" .Values.peers.group | quote }}
{{- end }}
- {{ printf "--max-payload-size=%d" (int64 .Values.limits.payloadBytes) | quote }}
- {{ printf "--max-bodies-memory=%d" (int64 .Values.limits.bodiesMemoryBytes) | quote }}
- {{ printf "--shutdown-delay-secs=%v" .Values.shutdown.delaySeconds | quote }}
- {{ printf "--shutdown-grace-period-secs=%v" .Values.shutdown.graceSeconds | quote }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}
