{{/* Values that the schema admits one by one, but that cannot work together. All of them are named at once. */}}
{{- define "edge.checks" -}}
{{- $problems := concat (include "edge.resourceProblems" . | fromJsonArray) (include "edge.podProblems" . | fromJsonArray) -}}
{{- $values := .Values -}}
{{- $settings := .Values.settings -}}
{{- $secrets := .Values.secrets -}}

{{- $sources := list -}}
{{- range $name := list "inline" "configMap" "url" -}}
{{- if get $values.bundle $name -}}{{- $sources = append $sources (printf "bundle.%s" $name) -}}{{- end -}}
{{- end -}}
{{- if $secrets.EDGE_CONFIG_URL -}}{{- $sources = append $sources "secrets.EDGE_CONFIG_URL" -}}{{- end -}}
{{- if not $sources -}}
{{- $problems = append $problems "bundle: edge decides nothing without a bundle. Add --set-file bundle.inline=limits.yaml, or set bundle.configMap or bundle.url." -}}
{{- else if gt (len $sources) 1 -}}
{{- $problems = append $problems (printf "bundle: expected one source of bundles, got %s." (join " and " $sources)) -}}
{{- end -}}
{{- if gt (len (default "" $values.bundle.inline)) 1000000 -}}
{{- $problems = append $problems (printf "bundle.inline: expected at most 1,000,000 bytes, because a ConfigMap holds no more, got %d. Publish larger bundles by bundle.url." (len $values.bundle.inline)) -}}
{{- end -}}
{{- if and $values.bundle.signature (not $values.bundle.inline) -}}
{{- $problems = append $problems "bundle.signature: expected bundle.inline, because it is the signature of that text. A ConfigMap of yours has the signature in a key of its own, and a URL sends it." -}}
{{- end -}}
{{- if and $values.bundle.restartOnChange (not $values.bundle.inline) -}}
{{- $problems = append $problems "bundle.restartOnChange: expected bundle.inline, because the chart does not see changes of a bundle elsewhere." -}}
{{- end -}}
{{- if and $secrets.EDGE_CONFIG_TOKEN (not (include "edge.hasBundleUrl" .)) -}}
{{- $problems = append $problems "secrets.EDGE_CONFIG_TOKEN: expected bundle.url, because the token is sent only there." -}}
{{- end -}}

{{- if eq $values.mode "reverse_proxy" -}}
{{- if not (or $settings.EDGE_BACKEND_URL $settings.EDGE_BACKEND_HOSTS) -}}
{{- $problems = append $problems "mode: reverse_proxy needs settings.EDGE_BACKEND_URL or, for backends that the bundle names, settings.EDGE_BACKEND_HOSTS." -}}
{{- end -}}
{{- if include "edge.hasGrpc" . -}}
{{- $problems = append $problems "ports.grpc: expected off, because mode is reverse_proxy and gRPC is served by decision_service alone." -}}
{{- end -}}
{{- if not (include "edge.hasHttp" .) -}}
{{- $problems = append $problems "ports.http: expected a port, because mode is reverse_proxy." -}}
{{- end -}}
{{- if $settings.EDGE_GRPC_SOCKET -}}
{{- $problems = append $problems "settings.EDGE_GRPC_SOCKET: expected it to be unset, because mode is reverse_proxy and gRPC is served by decision_service alone." -}}
{{- end -}}
{{- else -}}
{{- if not (or (include "edge.hasHttp" .) (include "edge.hasGrpc" .)) -}}
{{- $problems = append $problems "ports: expected a port in http or grpc, because there is nothing else to ask." -}}
{{- end -}}
{{- if $values.data.usageLog -}}
{{- $problems = append $problems "data.usageLog: expected mode reverse_proxy, because only there edge sees what a response used." -}}
{{- end -}}
{{- end -}}
{{- $ports := list -}}
{{- range $name := list "http" "grpc" "admin" -}}
{{- $port := get $values.ports $name -}}
{{- if and $port (ne (toString $port) "off") -}}
{{- if has $port $ports -}}{{- $problems = append $problems (printf "ports.%s: expected a port that no other one has, got %v." $name $port) -}}{{- end -}}
{{- $ports = append $ports $port -}}
{{- end -}}
{{- end -}}
{{- $urls := dict "bundle.url" $values.bundle.url -}}
{{- range $name := list "EDGE_BACKEND_URL" "EDGE_EVENTS_URL" "EDGE_OTLP_URL" -}}
{{- $_ := set $urls (printf "settings.%s" $name) (get $settings $name) -}}
{{- end -}}
{{- range $host := splitList "," (default "" $settings.EDGE_BACKEND_HOSTS) -}}
{{- $_ := set $urls (printf "settings.EDGE_BACKEND_HOSTS (%s)" (trim $host)) (ternary (printf "https://%s" (trim $host)) "" (regexMatch ":[0-9]+$" (trim $host))) -}}
{{- end -}}
{{- range $name, $url := $urls -}}
{{- if $url -}}
{{- $port := int64 (regexFind ":[0-9]+(?:[/?]|$)" (trimPrefix "http://" (trimPrefix "https://" $url)) | trimPrefix ":" | trimSuffix "/" | trimSuffix "?") -}}
{{- if gt $port 65535 -}}
{{- $problems = append $problems (printf "%s: expected a port between 1 and 65535, got %d." $name $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $address := default $settings.EDGE_HOST $settings.EDGE_ADMIN_HOST -}}
{{- if eq (include "edge.isLoopback" $address) "true" -}}
{{- $problems = append $problems (printf "settings: the admin port would listen on %s, where no probe of Kubernetes reaches it. Leave EDGE_ADMIN_HOST and EDGE_HOST unset, and say in networkPolicy.operators who may connect." $address) -}}
{{- else if eq (include "edge.isLoopback" $settings.EDGE_HOST) "true" -}}
{{- $problems = append $problems (printf "settings.EDGE_HOST: the main ports would listen on %s, where no Service reaches them. Leave it unset, and say in networkPolicy.clients who may connect." $settings.EDGE_HOST) -}}
{{- end -}}
{{- if and $settings.EDGE_SOCKET (eq $settings.EDGE_SOCKET (default "" $settings.EDGE_GRPC_SOCKET)) -}}
{{- $problems = append $problems (printf "settings.EDGE_GRPC_SOCKET: expected a path other than EDGE_SOCKET (%s)." $settings.EDGE_SOCKET) -}}
{{- end -}}
{{- $headersMs := int64 (default 60000 $settings.EDGE_HEADERS_TIMEOUT_MS) -}}
{{- $requestMs := int64 (default 300000 $settings.EDGE_REQUEST_TIMEOUT_MS) -}}
{{- if gt $headersMs $requestMs -}}
{{- $problems = append $problems (printf "settings.EDGE_HEADERS_TIMEOUT_MS: expected no more than EDGE_REQUEST_TIMEOUT_MS (%d), got %d." $requestMs $headersMs) -}}
{{- end -}}
{{- $bodyMemory := default "256m" $settings.EDGE_BODY_MEMORY -}}
{{- $maxBody := default "16m" $settings.EDGE_MAX_BODY_BYTES -}}
{{- if lt (int64 (include "edge.bytes" $bodyMemory)) (int64 (include "edge.bytes" $maxBody)) -}}
{{- $problems = append $problems (printf "settings.EDGE_BODY_MEMORY: expected at least EDGE_MAX_BODY_BYTES (%s), got %s." (include "edge.settingText" $maxBody) (include "edge.settingText" $bodyMemory)) -}}
{{- end -}}

{{- $tls := $values.tls.listeners -}}
{{- if and $values.tls.certificates (not (or (has "admin" $tls) (and (has "main" $tls) (include "edge.hasHttp" .)) (and (has "grpc" $tls) (include "edge.hasGrpc" .)))) -}}
{{- $problems = append $problems (printf "tls.listeners: expected a port that is open, got %s." (join " and " $tls)) -}}
{{- end -}}
{{- if include "edge.hasClientCa" . -}}
{{- if not $values.tls.certificates -}}
{{- $problems = append $problems "tls.clientCa: expected tls.certificates, because only TLS listeners see certificates of clients." -}}
{{- end -}}
{{- if and $values.tls.clientCa.configMap $values.tls.clientCa.secret -}}
{{- $problems = append $problems "tls.clientCa: expected either configMap or secret, got both." -}}
{{- end -}}
{{- if has "admin" $values.tls.listeners -}}
{{- $problems = append $problems "tls.listeners: expected none of admin, because tls.clientCa is set and probes of Kubernetes have no certificate." -}}
{{- end -}}
{{- end -}}

{{- if and $secrets.EDGE_ADMIN_READ_TOKEN (not $secrets.EDGE_ADMIN_TOKEN) -}}
{{- $problems = append $problems "secrets.EDGE_ADMIN_READ_TOKEN: expected EDGE_ADMIN_TOKEN too, because without it there is no admin API to read." -}}
{{- end -}}
{{- range $name, $_ := $settings -}}
{{- if and (hasPrefix "EDGE_REDIS_" $name) (not $secrets.EDGE_REDIS_URL) -}}
{{- $problems = append $problems (printf "settings.%s: expected secrets.EDGE_REDIS_URL, because without it there is no Redis, and each pod counts by itself." $name) -}}
{{- end -}}
{{- end -}}
{{- if and $settings.EDGE_EVENTS_URL $secrets.EDGE_EVENTS_URL -}}
{{- $problems = append $problems "EDGE_EVENTS_URL: expected it either in settings or in secrets, got both." -}}
{{- end -}}
{{- if and (include "edge.hasEvents" .) (not $secrets.EDGE_EVENTS_SECRET) (ne (default "json" $settings.EDGE_EVENTS_FORMAT) "slack") -}}
{{- $problems = append $problems "secrets.EDGE_EVENTS_SECRET: expected a secret, because EDGE_EVENTS_URL is set and events posted there are signed." -}}
{{- end -}}

{{- if and (include "edge.isSinglePod" .) (include "edge.isFleet" .) -}}
{{- $problems = append $problems (printf "data.claim.accessMode: %s serves one pod. Set replicas: 1 and autoscaling.enabled: false, or use ReadWriteMany or data.volume: emptyDir." $values.data.claim.accessMode) -}}
{{- end -}}
{{- if and (eq $values.data.volume "claim") (not (include "edge.usesData" .)) -}}
{{- $problems = append $problems "data.volume: expected a file to keep in the claim, such as data.stateFile: true." -}}
{{- end -}}
{{- if and $values.data.claim.name (ne $values.data.volume "claim") -}}
{{- $problems = append $problems "data.claim.name: expected data.volume: claim, because an emptyDir keeps the files elsewhere, and loses them with the pod." -}}
{{- end -}}
{{- if and $values.autoscaling.enabled (not (dig "requests" "cpu" "" $values.resources)) -}}
{{- $problems = append $problems "resources.requests.cpu: expected a request, because autoscaling compares the use of the CPU with it." -}}
{{- end -}}
{{- with $values.metrics.serviceMonitor -}}
{{- if gt (int64 (include "edge.milliseconds" .scrapeTimeout)) (int64 (include "edge.milliseconds" .interval)) -}}
{{- $problems = append $problems (printf "metrics.serviceMonitor.scrapeTimeout: expected no more than interval (%s), got %s." .interval .scrapeTimeout) -}}
{{- end -}}
{{- end -}}
{{- if and $values.service.externalTrafficPolicy (eq $values.service.type "ClusterIP") -}}
{{- $problems = append $problems "service.externalTrafficPolicy: expected service.type NodePort or LoadBalancer, because nobody outside reaches a ClusterIP." -}}
{{- end -}}
{{- if and $values.networkPolicy.enabled (not $values.networkPolicy.operators) -}}
{{- $problems = append $problems "networkPolicy.operators: expected who may connect to the admin port, such as Prometheus: - namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: monitoring } }. To let any pod connect, say so: - namespaceSelector: {}." -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]" (include "edge.fullname" .)) -}}
{{- $problems = append $problems (printf "fullnameOverride: expected a name, because Services would be called %s, and their names must begin with a letter." (include "edge.fullname" .)) -}}
{{- end -}}
{{- if and $values.autoscaling.enabled (gt (int $values.autoscaling.minReplicas) (int $values.autoscaling.maxReplicas)) -}}
{{- $problems = append $problems (printf "autoscaling.minReplicas: expected at most maxReplicas (%v), got %v." $values.autoscaling.maxReplicas $values.autoscaling.minReplicas) -}}
{{- end -}}

{{- if $problems -}}
{{- fail (printf "\n\n%s\n" (join "\n" $problems)) -}}
{{- end -}}
{{- end -}}

{{/* Prints a list of what is wrong with the CPU time and the memory of the container. */}}
{{- define "edge.resourceProblems" -}}
{{- $problems := list -}}
{{- $limits := default dict .Values.resources.limits -}}
{{- range $name, $request := default dict .Values.resources.requests -}}
{{- $limit := get $limits $name -}}
{{- if and $limit $request -}}
{{- if gt (float64 (include "edge.thousandths" $request)) (float64 (include "edge.thousandths" $limit)) -}}
{{- $problems = append $problems (printf "resources.requests.%s: expected no more than the limit (%v), got %v." $name $limit $request) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $store := default "64m" .Values.settings.EDGE_STORE_SIZE -}}
{{- with $limits.memory -}}
{{- if ge (mulf (include "edge.bytes" $store) 1000) (float64 (include "edge.thousandths" .)) -}}
{{- $problems = append $problems (printf "resources.limits.memory: expected more than settings.EDGE_STORE_SIZE (%s), got %v." (include "edge.settingText" $store) .) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* Prints a list of what the values add to the pod although the chart has it already, or twice. */}}
{{- define "edge.podProblems" -}}
{{- $problems := list -}}
{{- range $name, $_ := .Values.podLabels -}}
{{- if hasKey (include "edge.labels" $ | fromYaml) $name -}}
{{- $problems = append $problems (printf "podLabels: expected no label that the chart sets, got %s." $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := .Values.podAnnotations -}}
{{- if has $name (list "checksum/bundle" "kubectl.kubernetes.io/default-container") -}}
{{- $problems = append $problems (printf "podAnnotations: expected no annotation that the chart sets, got %s." $name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if hasPrefix "EDGE_" .name -}}
{{- $problems = append $problems (printf "extraEnv: expected no variables of edge, got %s. Set it below settings or secrets, or by the value that the chart's README names for it." .name) -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range include "edge.environment" . | fromYamlArray -}}
{{- if and (has .name $names) (not (hasPrefix "EDGE_" .name)) -}}
{{- $problems = append $problems (printf "extraEnv: expected each name once, and none that the chart sets, got %s." .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $volumes := list -}}
{{- range include "edge.volumes" . | fromYamlArray -}}
{{- if has .name $volumes -}}
{{- $problems = append $problems (printf "extraVolumes: expected each name once, and none that the chart sets, got %s." .name) -}}
{{- end -}}
{{- $volumes = append $volumes .name -}}
{{- end -}}
{{- $paths := list -}}
{{- range include "edge.volumeMounts" . | fromYamlArray -}}
{{- $path := default "/" (trimSuffix "/" .mountPath) -}}
{{- if has $path $paths -}}
{{- $problems = append $problems (printf "extraVolumeMounts: expected each path once, and none that the chart mounts, got %s." .mountPath) -}}
{{- end -}}
{{- $paths = append $paths $path -}}
{{- if not (has .name $volumes) -}}
{{- $problems = append $problems (printf "extraVolumeMounts: expected the name of a volume, got %s." .name) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
