{{/* A setting as the text of its variable: numbers without an exponent, switches as words. */}}
{{- define "edge.settingText" -}}
{{- if kindIs "string" . -}}
{{- . -}}
{{- else if kindIs "bool" . -}}
{{- ternary "on" "off" . -}}
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* The variables of the container. */}}
{{- define "edge.environment" -}}
{{- $env := dict "EDGE_MODE" .Values.mode "EDGE_ADMIN_PORT" (toJson .Values.ports.admin) -}}
{{- $_ := set $env "EDGE_PORT" (ternary (toJson .Values.ports.http) "off" (eq (include "edge.hasHttp" .) "true")) -}}
{{- if include "edge.hasGrpc" . -}}{{- $_ := set $env "EDGE_GRPC_PORT" (toJson .Values.ports.grpc) -}}{{- end -}}
{{- with .Values.bundle -}}
{{- if or .inline .configMap -}}{{- $_ := set $env "EDGE_CONFIG_FILE" (printf "/etc/edge/bundle/%s" .key) -}}{{- end -}}
{{- if .url -}}{{- $_ := set $env "EDGE_CONFIG_URL" .url -}}{{- end -}}
{{- if .publicKey -}}{{- $_ := set $env "EDGE_CONFIG_PUBLIC_KEY" .publicKey -}}{{- end -}}
{{- end -}}
{{- if include "edge.hasBundleUrl" . -}}{{- $_ := set $env "EDGE_CONFIG_CACHE_FILE" "/var/lib/edge/bundle" -}}{{- end -}}
{{- if .Values.secretsDir -}}{{- $_ := set $env "EDGE_SECRETS_DIR" "/etc/edge/secrets" -}}{{- end -}}
{{- with .Values.data -}}
{{- if .stateFile -}}{{- $_ := set $env "EDGE_STATE_FILE" "/var/lib/edge/state" -}}{{- end -}}
{{- if .keysFile -}}{{- $_ := set $env "EDGE_KEYS_FILE" "/var/lib/edge/keys" -}}{{- end -}}
{{- if .usageLog -}}{{- $_ := set $env "EDGE_USAGE_DIR" "/var/lib/edge/usage" -}}{{- end -}}
{{- if .decisionLog -}}{{- $_ := set $env "EDGE_DECISION_LOG" "/var/lib/edge/decisions.log" -}}{{- end -}}
{{- end -}}
{{- if .Values.tls.certificates -}}
{{- $certificates := list -}}
{{- $keys := list -}}
{{- range $i, $_ := .Values.tls.certificates -}}
{{- $certificates = append $certificates (printf "/etc/edge/tls/%d/tls.crt" $i) -}}
{{- $keys = append $keys (printf "/etc/edge/tls/%d/tls.key" $i) -}}
{{- end -}}
{{- $_ := set $env "EDGE_TLS_CERT_FILE" (join "," $certificates) -}}
{{- $_ := set $env "EDGE_TLS_KEY_FILE" (join "," $keys) -}}
{{- $_ := set $env "EDGE_TLS_LISTENERS" (join "," .Values.tls.listeners) -}}
{{- if include "edge.hasClientCa" . -}}
{{- $_ := set $env "EDGE_TLS_CLIENT_CA_FILE" (printf "/etc/edge/client-ca/%s" .Values.tls.clientCa.key) -}}
{{- $_ := set $env "EDGE_TLS_CLIENT_AUTH" "require" -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := .Values.settings -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $env $name (include "edge.settingText" $value) -}}{{- end -}}
{{- end -}}
{{- range $name, $text := $env }}
- name: {{ $name }}
  value: {{ toJson $text }}
{{- end }}
{{- range $name, $secret := .Values.secrets }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ toJson $secret.name }}
      key: {{ toJson $secret.key }}
{{- end }}
{{- if include "edge.isSharedClaim" . }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
