/** One line of the exposition. */
export interface MetricValue {
  /** Where it is not the metric's own: those of a histogram. */
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export function labelled(names: readonly string[], values: readonly string[]): Record<string, string> {
  const labels: Record<string, string> = {}
  for (let i = 0; i < names.length; i++) labels[names[i]!] = values[i]!
  return labels
}

/** The value of a metric without labels. */
export function single(value: number): MetricValue[] {
  return [{ labels: {}, value }]
}
