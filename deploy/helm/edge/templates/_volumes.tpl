{{/* Everything is mounted as a directory: Kubernetes never updates a file that is mounted by subPath. */}}
{{- define "edge.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if or .Values.bundle.inline .Values.bundle.configMap }}
- name: bundle
  mountPath: /etc/edge/bundle
  readOnly: true
{{- end }}
{{- range $i, $_ := .Values.tls.certificates }}
- name: tls-{{ $i }}
  mountPath: /etc/edge/tls/{{ $i }}
  readOnly: true
{{- end }}
{{- if include "edge.hasClientCa" . }}
- name: client-ca
  mountPath: /etc/edge/client-ca
  readOnly: true
{{- end }}
{{- if .Values.secretsDir }}
- name: secrets
  mountPath: /etc/edge/secrets
  readOnly: true
{{- end }}
{{- if include "edge.usesData" . }}
- name: data
  mountPath: /var/lib/edge
  {{- /* Pods that share a claim must not write the same files. */}}
  {{- if include "edge.isSharedClaim" . }}
  subPathExpr: $(POD_NAME)
  {{- end }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "edge.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- if or .Values.bundle.inline .Values.bundle.configMap }}
- name: bundle
  configMap:
    name: {{ include "edge.bundleConfigMap" . | quote }}
{{- end }}
{{- range $i, $name := .Values.tls.certificates }}
- name: tls-{{ $i }}
  secret:
    secretName: {{ $name | quote }}
    defaultMode: 0440
{{- end }}
{{- if include "edge.hasClientCa" . }}
- name: client-ca
  {{- if .Values.tls.clientCa.secret }}
  secret:
    secretName: {{ .Values.tls.clientCa.secret | quote }}
  {{- else }}
  configMap:
    name: {{ .Values.tls.clientCa.configMap | quote }}
  {{- end }}
{{- end }}
{{- with .Values.secretsDir }}
- name: secrets
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
{{- end }}
{{- if include "edge.usesData" . }}
- name: data
  {{- if eq .Values.data.volume "claim" }}
  persistentVolumeClaim:
    claimName: {{ include "edge.claimName" . | quote }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .Values.data.sizeLimit }}
  {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
