{{/* What follows from several values. Each prints "true" or nothing, unless its name says otherwise. */}}

{{- define "edge.hasHttp" -}}
{{- if and .Values.ports.http (ne (toString .Values.ports.http) "off") -}}true{{- end -}}
{{- end -}}

{{- define "edge.hasGrpc" -}}
{{- if and .Values.ports.grpc (ne (toString .Values.ports.grpc) "off") -}}true{{- end -}}
{{- end -}}

{{- define "edge.hasBundleUrl" -}}
{{- if or .Values.bundle.url .Values.secrets.EDGE_CONFIG_URL -}}true{{- end -}}
{{- end -}}

{{- define "edge.hasEvents" -}}
{{- if or .Values.settings.EDGE_EVENTS_URL .Values.secrets.EDGE_EVENTS_URL -}}true{{- end -}}
{{- end -}}

{{- define "edge.hasClientCa" -}}
{{- if or .Values.tls.clientCa.configMap .Values.tls.clientCa.secret -}}true{{- end -}}
{{- end -}}

{{/* Of an address to listen on. */}}
{{- define "edge.isLoopback" -}}
{{- if regexMatch "^(127\\..*|::1|localhost)$" (default "" .) -}}true{{- end -}}
{{- end -}}

{{/* Prints the number of bytes of a size such as 16m. */}}
{{- define "edge.bytes" -}}
{{- $text := include "edge.settingText" . | lower -}}
{{- $factors := dict "k" 1024 "m" 1048576 "g" 1073741824 -}}
{{- mul (int64 (regexFind "^[0-9]+" $text)) (default 1 (get $factors (regexFind "[kmg]" $text))) -}}
{{- end -}}

{{/* Prints the thousandths of a quantity of Kubernetes such as 500m, 0.5 or 512Mi. */}}
{{- define "edge.thousandths" -}}
{{- $text := toString . -}}
{{- $unit := regexFind "[a-zA-Z]+$" $text -}}
{{- $factors := dict "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 -}}
{{- $binary := dict "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 -}}
{{- mulf (float64 (trimSuffix $unit $text)) (default 1.0 (get (merge $factors $binary) $unit)) 1000 | printf "%.0f" -}}
{{- end -}}

{{/* Prints the milliseconds of a duration of Prometheus such as 15s or 1m30s. */}}
{{- define "edge.milliseconds" -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $sum = add $sum (mul (int64 (trimSuffix $unit .)) (get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{- define "edge.isAdminTls" -}}
{{- if and .Values.tls.certificates (has "admin" .Values.tls.listeners) -}}true{{- end -}}
{{- end -}}

{{- define "edge.usesData" -}}
{{- $data := .Values.data -}}
{{- if or $data.stateFile $data.keysFile $data.usageLog $data.decisionLog (include "edge.hasBundleUrl" .) -}}true{{- end -}}
{{- end -}}

{{/* A claim that only one pod at a time may use. */}}
{{- define "edge.isSinglePod" -}}
{{- $data := .Values.data -}}
{{- if and (include "edge.usesData" .) (eq $data.volume "claim") (ne $data.claim.accessMode "ReadWriteMany") -}}true{{- end -}}
{{- end -}}

{{/* A claim that all pods use, each in a folder of its own. */}}
{{- define "edge.isSharedClaim" -}}
{{- $data := .Values.data -}}
{{- if and (include "edge.usesData" .) (eq $data.volume "claim") (eq $data.claim.accessMode "ReadWriteMany") -}}true{{- end -}}
{{- end -}}

{{- define "edge.isFleet" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) -}}true{{- end -}}
{{- end -}}

{{/* Prints whole seconds: the sum of the steps in docs/operations/lifecycle.md#shutdown, and some more for files. */}}
{{- define "edge.graceSeconds" -}}
{{- $settings := .Values.settings -}}
{{- $ms := int64 (default 0 $settings.EDGE_DRAIN_MS) -}}
{{- if eq .Values.mode "reverse_proxy" -}}
{{- $ms = add $ms (ternary (int64 $settings.EDGE_SHUTDOWN_MS) 30000 (hasKey $settings "EDGE_SHUTDOWN_MS")) -}}
{{- else -}}
{{- $ms = add $ms 5000 -}}
{{- end -}}
{{- /* Requests on the admin port, and workers that have to be terminated. */ -}}
{{- $ms = add $ms 1500 2000 -}}
{{- if .Values.secrets.EDGE_REDIS_URL -}}
{{- $ms = add $ms (mul 3 (int64 (default 50 $settings.EDGE_REDIS_TIMEOUT_MS))) -}}
{{- end -}}
{{- if $settings.EDGE_OTLP_URL -}}{{- $ms = add $ms 1000 -}}{{- end -}}
{{- if .Values.data.decisionLog -}}{{- $ms = add $ms 2000 -}}{{- end -}}
{{- if include "edge.hasEvents" . -}}{{- $ms = add $ms 1000 -}}{{- end -}}
{{- add (div (add $ms 999) 1000) (int64 .Values.rollout.extraGraceSeconds) -}}
{{- end -}}
