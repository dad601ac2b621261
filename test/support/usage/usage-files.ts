import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Logger, pino } from 'pino'
import { onTestFinished } from 'vitest'
import { UsageFiles } from '../../../src/runtime/usage-log/usage-files.ts'
import { MetricMemory, newMetricBuffer } from '../../../src/telemetry/metrics/metric-memory.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { scratchDirectory } from '../service/running.ts'
import { until } from '../until.ts'

export interface OpenUsageFiles {
  readonly files: UsageFiles
  readonly clock: ManualClock
  readonly directory: string
  readonly metrics: MetricMemory
  /** What was logged. */
  readonly said: { readonly event: string; readonly reason?: string }[]
  /** Writes lines, and waits until they are written or lost. */
  write(...lines: string[]): Promise<void>
  names(): Promise<string[]>
  count(name: string, ...labels: string[]): number
}

/** The files of a usage log in a directory of their own, without a service, on a clock that stands still. */
export async function openUsageFiles(directory?: string, keepDays = 2, clock = new ManualClock()): Promise<OpenUsageFiles> {
  const at = directory ?? join(await scratchDirectory(), 'usage')
  const said: { event: string; reason?: string }[] = []
  const logger: Logger = pino({}, { write: (line: string) => void said.push(JSON.parse(line)) })
  const metrics = new MetricMemory(newMetricBuffer(2), 0)
  let [sent, taken] = [0, 0]
  const files = new UsageFiles({ directory: at, keepDays, metrics, logger, clock, upkeepMs: 5, onTaken: () => taken++ })
  onTestFinished(() => files.close())
  return {
    files,
    clock,
    directory: at,
    metrics,
    said,
    async write(...lines) {
      sent++
      files.write(
        1,
        lines.map((line) => ({ hour: line.slice('{"time":"'.length, '{"time":"2026-11-18T10'.length), lines: line })),
        0,
      )
      await until(() => taken === sent)
    },
    names: async () => (await readdir(at)).sort(),
    count: (name, ...labels) => {
      const found = metrics.entriesOf(name).find(({ values }) => JSON.stringify(values) === JSON.stringify(labels))
      return found === undefined ? 0 : metrics.sum(found.cell)
    },
  }
}

/** A line of a request that was charged so many tokens by one rule, and so many billionths by another. */
export function usageLineOf(time: string, tokens: number, nanos: number, team = 'red'): string {
  const rules = [
    { policy: 'p', rule: 'tokens', tokens },
    { policy: 'p', rule: 'money', cost_nanos: nanos },
  ]
  return `${JSON.stringify({ time, model: 'big', end: 'done', tokens: { input: tokens, output: 1 }, labels: { 'caller:team': team }, rules })}\n`
}
