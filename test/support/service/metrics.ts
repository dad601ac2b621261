import { ask, type Place } from './http.ts'

/** What /metrics says, asked on a connection of its own: of whichever worker takes it. */
export async function metricsOf(place: Place): Promise<Metrics> {
  return new Metrics((await ask(place, 'GET', '/metrics')).body)
}

export class Metrics {
  readonly #series = new Map<string, number>()
  readonly #types = new Map<string, string>()

  constructor(text: string) {
    for (const line of text.split('\n')) {
      const [, name, type] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? []
      const space = line.lastIndexOf(' ')
      if (name !== undefined) this.#types.set(name, type!)
      else if (!line.startsWith('#') && space > 0) this.#series.set(line.slice(0, space), Number(line.slice(space + 1)))
    }
  }

  /** Of one series, by its name and labels as they are written; 0 when it is not there. */
  value(series: string): number {
    return this.#series.get(series) ?? 0
  }

  /** Of all series whose text begins so and has this in it. */
  sum(start: string, part = ''): number {
    return [...this.#series].reduce((sum, [series, value]) => (series.startsWith(start) && series.includes(part) ? sum + value : sum), 0)
  }

  /** Open connections by worker, the one included on which this was asked. */
  get connections(): readonly number[] {
    return [...this.#series].filter(([series]) => series.startsWith('edge_worker_connections{')).map(([, value]) => value)
  }

  /** Every series that may only grow. */
  *counters(): Generator<readonly [series: string, value: number]> {
    for (const [series, value] of this.#series) {
      const name = series.split('{')[0]!
      const type = this.#types.get(name) ?? this.#types.get(name.replace(/_(?:bucket|sum|count)$/, ''))
      if (type !== 'gauge') yield [series, value]
    }
  }
}

/** The value of one series, by its name and labels as /metrics writes them; 0 when it is not there. */
export async function metric(place: Place, series: string): Promise<number> {
  return (await metricsOf(place)).value(series)
}
