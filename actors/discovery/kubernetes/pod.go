package kubernetes

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// pod is as much of a pod as is looked at. The types of k8s.io/api have all of it, at
// seven seconds of compiling and four megabytes of program.
type pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Status podStatus `json:"status"`
}

type podStatus struct {
	Phase      string         `json:"phase"`
	PodIP      string         `json:"podIP"`
	PodIPs     []podIP        `json:"podIPs"`
	Conditions []podCondition `json:"conditions"`
}

type podIP struct {
	IP string `json:"ip"`
}

type podCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

type podList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []pod `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (p *pod) DeepCopyObject() runtime.Object {
	c := *p
	p.DeepCopyInto(&c.ObjectMeta)
	c.Status.PodIPs = append([]podIP(nil), p.Status.PodIPs...)
	c.Status.Conditions = append([]podCondition(nil), p.Status.Conditions...)
	return &c
}

// DeepCopyObject implements runtime.Object.
func (l *podList) DeepCopyObject() runtime.Object {
	c := *l
	l.DeepCopyInto(&c.ListMeta)
	c.Items = make([]pod, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*pod)
	}
	return &c
}

var coreV1 = schema.GroupVersion{Version: "v1"}

// newCodecs decodes pods, and what the API server says of lists, watches and errors.
func newCodecs() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(coreV1.WithKind("Pod"), &pod{})
	scheme.AddKnownTypeWithName(coreV1.WithKind("PodList"), &podList{})
	metav1.AddToGroupVersion(scheme, coreV1)
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}
