import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { scratchDirectory } from '../../../test/support/service/running.ts'
import { stallDisk } from '../../../test/support/stalled-disk.ts'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { DecisionLogFile } from './decision-log-file.ts'

const TIMEOUT_MS = 2001

test('a disk that hangs is reported and delays neither workers nor the shutdown; what it was given is written when it returns', async () => {
  const directory = await scratchDirectory()
  const path = join(directory, 'decisions.log')
  const said: { event: string; reason?: string }[] = []
  const taken: number[] = []
  let nowMs = 0
  const metrics = new MetricMemory(newMetricBuffer(1), 0)
  const file = new DecisionLogFile({
    path,
    metrics,
    logger: pino({}, { write: (line: string) => void said.push(JSON.parse(line)) }),
    nowMs: () => nowMs,
    onTaken: (worker) => void taken.push(worker),
  })
  const resume = stallDisk(directory)
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  file.write(1, '{"uri":"/one"}\n', 0)
  expect(file.isSlow).toBe(false)
  nowMs += TIMEOUT_MS
  vi.advanceTimersByTime(TIMEOUT_MS)
  expect(file.isSlow).toBe(true)
  const reason = 'the disk did not respond within 2 s'
  expect(said).toMatchObject([{ event: 'decision_log_not_written', reason }])
  expect(taken).toEqual([])
  const closed = file.close()
  vi.advanceTimersByTime(TIMEOUT_MS)
  await closed
  expect(said).toHaveLength(1)
  await resume()
  await vi.waitUntil(() => taken.length > 0, { timeout: 60_000 })
  expect(taken).toEqual([1])
  expect(await readFile(path, 'utf8')).toBe('{"uri":"/one"}\n')
  expect(said.at(-1)).toMatchObject({ event: 'decision_log_written_again' })
  expect(new CounterFamily(metrics, 'edge_decision_log_lines_total').series('written').count).toBe(1)
})
