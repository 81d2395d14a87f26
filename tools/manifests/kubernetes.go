package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	sandboxv1beta1 "sigs.k8s.io/agent-sandbox/api/v1beta1"
	"sigs.k8s.io/yaml"
)

// objects are those of one manifest.
type objects struct {
	configMaps map[string]map[string]string
	pods       []pod
	targets    []target
}

type pod struct {
	name   string
	meta   metav1.ObjectMeta
	spec   corev1.PodSpec
	claims []corev1.PersistentVolumeClaim
}

// kubernetes decodes a manifest as the API server does with fieldValidation=Strict, and returns the
// containers of its pods.
func kubernetes(text []byte) ([]container, error) {
	found := objects{configMaps: make(map[string]map[string]string)}
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := found.decode(document); err != nil {
			return nil, err
		}
	}
	errs := []error{found.connected()}
	for _, p := range found.pods {
		errs = append(errs, restricted(p), wellFormed(p))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err // what follows takes for granted what restricted and wellFormed look for
	}
	var all []container
	for _, p := range found.pods {
		for _, c := range p.spec.InitContainers {
			all = append(all, p.container(c, found.configMaps, true))
		}
		for _, c := range p.spec.Containers {
			all = append(all, p.container(c, found.configMaps, false))
		}
	}
	return all, nil
}

func (o *objects) decode(document []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 ConfigMap":
		var m corev1.ConfigMap
		err := yaml.UnmarshalStrict(document, &m)
		o.configMaps[m.Name] = m.Data
		return err
	case "v1 Service":
		var s corev1.Service
		err := yaml.UnmarshalStrict(document, &s)
		to := target{what: "service " + s.Name, selector: metav1.LabelSelector{MatchLabels: s.Spec.Selector}}
		for _, port := range s.Spec.Ports {
			to.ports = append(to.ports, port.TargetPort)
		}
		o.targets = append(o.targets, to)
		return err
	case "networking.k8s.io/v1 NetworkPolicy":
		var n networkingv1.NetworkPolicy
		err := yaml.UnmarshalStrict(document, &n)
		o.targets = append(o.targets, targetsOf(&n)...)
		return err
	case "apps/v1 Deployment":
		var d appsv1.Deployment
		err := yaml.UnmarshalStrict(document, &d)
		o.pods = append(o.pods, pod{name: d.Name, meta: d.Spec.Template.ObjectMeta, spec: d.Spec.Template.Spec})
		return cmp.Or(err, selects(d.Spec.Selector, d.Spec.Template.Labels))
	case "apps/v1 StatefulSet":
		var s appsv1.StatefulSet
		err := yaml.UnmarshalStrict(document, &s)
		o.pods = append(o.pods, pod{s.Name, s.Spec.Template.ObjectMeta, s.Spec.Template.Spec, s.Spec.VolumeClaimTemplates})
		return cmp.Or(err, selects(s.Spec.Selector, s.Spec.Template.Labels))
	case "agents.x-k8s.io/v1beta1 Sandbox":
		var s sandboxv1beta1.Sandbox
		err := yaml.UnmarshalStrict(document, &s)
		template := s.Spec.PodTemplate
		p := pod{name: s.Name, meta: metav1.ObjectMeta{Labels: template.ObjectMeta.Labels}, spec: template.Spec}
		for _, claim := range s.Spec.VolumeClaimTemplates {
			p.claims = append(p.claims, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Name}, Spec: claim.Spec})
		}
		o.pods = append(o.pods, p)
		return err
	}
	return fmt.Errorf("%s %s: nobody checks this kind", kind.APIVersion, kind.Kind)
}

func selects(s *metav1.LabelSelector, labels map[string]string) error {
	for name, value := range s.MatchLabels {
		if labels[name] != value {
			return fmt.Errorf("the selector wants %s=%s, and the template has %q", name, value, labels[name])
		}
	}
	return nil
}

// restricted asks the admission controller's own checks.
func restricted(p pod) error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &p.meta, &p.spec))
	if !result.Allowed {
		return fmt.Errorf("pod %s is not restricted: %s", p.name, result.ForbiddenDetail())
	}
	return nil
}

// wellFormed finds what the types allow and the API server refuses, or what makes the pod another one than meant.
func wellFormed(p pod) error {
	if s := p.spec.SecurityContext; s == nil || s.RunAsUser == nil || s.RunAsGroup == nil {
		return fmt.Errorf("pod %s names no user and group", p.name)
	}
	volumes := make(map[string]bool)
	for _, v := range p.spec.Volumes {
		volumes[v.Name] = true
		if v.Secret != nil && v.Secret.DefaultMode == nil {
			return fmt.Errorf("pod %s: everybody may read the secret %s: it has no defaultMode", p.name, v.Name)
		}
	}
	for _, claim := range p.claims {
		volumes[claim.Name] = true
		if !slices.Equal(claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}) {
			return fmt.Errorf("pod %s: claim %s lets several pods in", p.name, claim.Name)
		}
	}
	for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				return fmt.Errorf("pod %s: %s mounts %s, which is no volume", p.name, c.Name, m.Name)
			}
		}
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() {
			return fmt.Errorf("pod %s: %s has no memory limit or request", p.name, c.Name)
		}
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			return fmt.Errorf("pod %s: %s may write to its root", p.name, c.Name)
		}
		for _, k := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if k != nil && k.Exec == nil {
				return fmt.Errorf("pod %s: %s has a probe that is no command: it would need the token, and a name that botwired knows", p.name, c.Name)
			}
		}
	}
	for _, c := range p.spec.InitContainers {
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			return fmt.Errorf("pod %s: %s is no sidecar", p.name, c.Name)
		}
	}
	return nil
}

func (p pod) container(c corev1.Container, configMaps map[string]map[string]string, sidecar bool) container {
	out := container{
		Name: c.Name, Sidecar: sidecar, Command: c.Command, Args: c.Args, Memory: c.Resources.Limits.Memory().Value(), Grace: 30,
		Env: make(map[string]string), Files: make(map[string]file), Probes: make(map[string]probe),
		ReadOnly: true, NoNewPrivileges: true, NoCapabilities: true, // as restricted and wellFormed have found
	}
	out.User = fmt.Sprintf("%d:%d", *p.spec.SecurityContext.RunAsUser, *p.spec.SecurityContext.RunAsGroup)
	if p.spec.TerminationGracePeriodSeconds != nil {
		out.Grace = float64(*p.spec.TerminationGracePeriodSeconds)
	}
	for _, e := range c.Env {
		out.Env[e.Name] = expanded(e.Value, out.Env)
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			out.Env[e.Name] = "<secret " + e.ValueFrom.SecretKeyRef.Name + ">"
		}
	}
	for _, m := range c.VolumeMounts {
		p.mount(&out, m, configMaps)
	}
	for name, k := range map[string]*corev1.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		if k != nil {
			out.Probes[name] = probe{
				Command: k.Exec.Command, Delay: float64(k.InitialDelaySeconds), Period: float64(cmp.Or(k.PeriodSeconds, 10)),
				Timeout: float64(cmp.Or(k.TimeoutSeconds, 1)), Failures: int(cmp.Or(k.FailureThreshold, 3)),
			}
		}
	}
	return out
}

func (p pod) mount(out *container, m corev1.VolumeMount, configMaps map[string]map[string]string) {
	i := slices.IndexFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if i < 0 || p.spec.Volumes[i].EmptyDir != nil {
		out.Volumes = append(out.Volumes, m.MountPath)
		return
	}
	v := p.spec.Volumes[i]
	if v.ConfigMap != nil {
		for name, content := range configMaps[v.ConfigMap.Name] {
			out.Files[m.MountPath+"/"+name] = file{Content: content, Mode: 0o644}
		}
	}
	if v.Secret != nil {
		out.Files[m.MountPath+"/token"] = file{Secret: v.Secret.SecretName, Mode: *v.Secret.DefaultMode}
	}
}
