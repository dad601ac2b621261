{{- define "edge.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimAll "-" -}}
{{- end -}}

{{/* Leaves room for the longest suffix, "-bundle". Names of releases may have dots, those of Services may not. */}}
{{- define "edge.fullname" -}}
{{- $name := printf "%s-%s" .Release.Name (include "edge.name" .) -}}
{{- if contains (include "edge.name" .) .Release.Name -}}{{- $name = .Release.Name -}}{{- end -}}
{{- default $name .Values.fullnameOverride | replace "." "-" | trunc 56 | trimAll "-" -}}
{{- end -}}

{{- define "edge.selectorLabels" -}}
app.kubernetes.io/name: {{ include "edge.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "edge.labels" -}}
{{ include "edge.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-" }}
{{- end -}}

{{- define "edge.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "edge.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "edge.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "edge.bundleConfigMap" -}}
{{- default (printf "%s-bundle" (include "edge.fullname" .)) .Values.bundle.configMap -}}
{{- end -}}

{{- define "edge.claimName" -}}
{{- default (printf "%s-data" (include "edge.fullname" .)) .Values.data.claim.name -}}
{{- end -}}
