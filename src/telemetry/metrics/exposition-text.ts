import type { MetricValue } from './metric-value.ts'

export interface MetricText {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly values: Iterable<MetricValue>
}

/** Some 100 microseconds of work. */
const LINES_PER_PIECE = 50

/** Metrics in Prometheus's text format, version 0.0.4, a piece at a time. */
export function* expositionText(metrics: Iterable<MetricText>): Generator<string> {
  let separator = ''
  for (const { name, help, type, values } of metrics) {
    let piece = `${separator}# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`
    let lines = 0
    separator = '\n'
    for (const { metricName = name, labels, value } of values) {
      piece += `${metricName}${labelText(labels)} ${numberText(value)}\n`
      if (++lines % LINES_PER_PIECE > 0) continue
      yield piece
      piece = ''
    }
    yield piece
  }
}

function labelText(labels: MetricValue['labels']): string {
  let text = ''
  for (const name of Object.keys(labels)) text += `${text === '' ? '{' : ','}${name}="${escapeLabel(labels[name]!)}"`
  return text === '' ? '' : `${text}}`
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

const ESCAPED = /[\\\n"]/

function escapeLabel(text: string): string {
  return !ESCAPED.test(text) ? text : escapeHelp(text).replaceAll('"', '\\"')
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}
