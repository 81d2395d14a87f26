package main

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// target is a set of pods that a Service or a NetworkPolicy selects, and their ports that it names.
type target struct {
	what     string
	selector metav1.LabelSelector
	ports    []intstr.IntOrString
}

// targetsOf are the pods that a policy is for, and those that it lets in.
func targetsOf(n *networkingv1.NetworkPolicy) []target {
	to := target{what: "network policy " + n.Name, selector: n.Spec.PodSelector}
	all := []target{}
	for _, rule := range n.Spec.Ingress {
		for _, port := range rule.Ports {
			if port.Port != nil {
				to.ports = append(to.ports, *port.Port)
			}
		}
		for _, peer := range rule.From {
			if peer.PodSelector != nil {
				all = append(all, target{what: to.what + ", from", selector: *peer.PodSelector})
			}
		}
	}
	return append(all, to)
}

// connected returns an error for each Service and NetworkPolicy that selects no pod of its manifest,
// or names a port that the pod does not have: the API server takes both, and nobody is reached.
func (o *objects) connected() error {
	var errs []error
	for _, to := range o.targets {
		i := slices.IndexFunc(o.pods, func(p pod) bool { return selects(&to.selector, p.meta.Labels) == nil })
		if i < 0 {
			errs = append(errs, fmt.Errorf("%s selects no pod", to.what))
			continue
		}
		for _, port := range to.ports {
			if !hasPort(o.pods[i].spec, port) {
				errs = append(errs, fmt.Errorf("%s: pod %s has no port %s", to.what, o.pods[i].name, port.String()))
			}
		}
	}
	return errors.Join(errs...)
}

func hasPort(spec corev1.PodSpec, wanted intstr.IntOrString) bool {
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool {
			return wanted.Type == intstr.String && port.Name == wanted.StrVal || wanted.Type == intstr.Int && port.ContainerPort == wanted.IntVal
		})
	})
}
