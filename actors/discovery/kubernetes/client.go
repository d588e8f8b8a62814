package kubernetes

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Client speaks with an API server.
type Client struct {
	rest rest.Interface
	host string
}

// responseLimit bounds the wait for one answer that isn't a watch.
const responseLimit = 60 * time.Second

// NewClient makes a client of a kubeconfig file. Without one it goes by the variable
// KUBECONFIG, else by the service account of the pod that this process runs in, else
// by the file in the home directory. The server is not asked anything yet.
func NewClient(kubeconfig string) (*Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	rules.WarnIfAllMissing = false
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no way to the Kubernetes API server is known: %w; run in a pod with a service account, or give a file by --kubeconfig", err)
	}
	return newClient(config, maxAnswer)
}

func newClient(config *rest.Config, most int64) (*Client, error) {
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath = &coreV1, "/api"
	c.NegotiatedSerializer = newCodecs()
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json" // pods of ours have no other form
	c.UserAgent = "loadstar"
	c.WarningHandler = rest.NoWarnings{}
	limit(c, most)
	r, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("cannot speak with the Kubernetes API server: %w", err)
	}
	return &Client{r, c.Host}, nil
}
