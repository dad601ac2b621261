import type { MetricValue } from './metric-value.ts'

export interface MetricText {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly values: Iterable<MetricValue>
}

/** Metrics in Prometheus's text format, version 0.0.4. */
export function expositionText(metrics: Iterable<MetricText>): string {
  let text = ''
  for (const { name, help, type, values } of metrics) {
    text += `${text === '' ? '' : '\n'}# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`
    for (const { metricName = name, labels, value } of values) text += `${metricName}${labelText(labels)} ${numberText(value)}\n`
  }
  return text
}

function labelText(labels: MetricValue['labels']): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

function escapeLabel(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"')
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}
