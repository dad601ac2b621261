{{/* Prints the port of a URL. */}}
{{- define "edge.urlPort" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- default (ternary "443" "80" (eq $url.scheme "https")) $port -}}
{{- end -}}

{{/* Prints the ports of all backends and key sets, separated by commas. */}}
{{- define "edge.backendPorts" -}}
{{- $ports := list -}}
{{- with .Values.settings.EDGE_BACKEND_URL -}}{{- $ports = append $ports (include "edge.urlPort" .) -}}{{- end -}}
{{- range $host := splitList "," (default "" .Values.settings.EDGE_BACKEND_HOSTS) -}}
{{- $port := regexFind ":[0-9]+$" (trim $host) | trimPrefix ":" -}}
{{- /* Without a port, the URL's scheme decides. */ -}}
{{- if $port -}}{{- $ports = append $ports $port -}}
{{- else if trim $host -}}{{- $ports = concat $ports (list "443" "80") -}}{{- end -}}
{{- end -}}
{{- join "," (uniq $ports) -}}
{{- end -}}

{{/* A rule for a destination: `to` its peers, on `ports` or, if there are none, on `found`, which are separated by commas. */}}
{{- define "edge.egressRule" -}}
{{- $ports := default (splitList "," .found) .rule.ports -}}
- ports:
    {{- range $ports }}
    - { protocol: TCP, port: {{ . }} }
    {{- end }}
  {{- with .rule.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* All egress rules: what the settings make edge connect to, and nothing else. */}}
{{- define "edge.egress" -}}
{{- $egress := .Values.networkPolicy.egress -}}
- ports:
    - { protocol: UDP, port: 53 }
    - { protocol: TCP, port: 53 }
  {{- with $egress.dns.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- if .Values.secrets.EDGE_REDIS_URL }}
{{ include "edge.egressRule" (dict "rule" $egress.redis "found" "6379") }}
{{- end }}
{{- if .Values.bundle.url }}
{{ include "edge.egressRule" (dict "rule" $egress.bundle "found" (include "edge.urlPort" .Values.bundle.url)) }}
{{- else if .Values.secrets.EDGE_CONFIG_URL }}
{{ include "edge.egressRule" (dict "rule" $egress.bundle "found" "443") }}
{{- end }}
{{- with include "edge.backendPorts" . }}
{{ include "edge.egressRule" (dict "rule" $egress.backends "found" .) }}
{{- end }}
{{- if .Values.settings.EDGE_EVENTS_URL }}
{{ include "edge.egressRule" (dict "rule" $egress.events "found" (include "edge.urlPort" .Values.settings.EDGE_EVENTS_URL)) }}
{{- else if .Values.secrets.EDGE_EVENTS_URL }}
{{ include "edge.egressRule" (dict "rule" $egress.events "found" "443") }}
{{- end }}
{{- with .Values.settings.EDGE_OTLP_URL }}
{{ include "edge.egressRule" (dict "rule" $egress.traces "found" (include "edge.urlPort" .)) }}
{{- end }}
{{- with $egress.extra }}
{{ toYaml . }}
{{- end }}
{{- end -}}
