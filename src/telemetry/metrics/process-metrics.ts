import { readdirSync } from 'node:fs'
import { linuxDescriptorLimit } from '../../files/descriptor-limit.ts'
import type { MetricName } from './catalogue.ts'
import { type MetricValue, single } from './metric-value.ts'

/**
 * The process as a whole, whichever thread serves the scrape: prom-client's own metrics count from the moment that a thread starts,
 * and would go down when another thread serves the next scrape.
 */
export function* processMetrics(): Generator<[MetricName, () => MetricValue[]]> {
  yield ['process_cpu_user_seconds_total', () => single(process.cpuUsage().user / 1e6)]
  yield ['process_cpu_system_seconds_total', () => single(process.cpuUsage().system / 1e6)]
  yield ['process_cpu_seconds_total', () => single((process.cpuUsage().user + process.cpuUsage().system) / 1e6)]
  yield ['process_resident_memory_bytes', () => where(() => process.memoryUsage.rss())]
  yield ['process_open_fds', () => where(() => readdirSync('/proc/self/fd').length)]
  yield ['process_max_fds', () => where(linuxDescriptorLimit)]
}

/** Nothing where there is no /proc, or no descriptor left to read it. */
function where(read: () => number): MetricValue[] {
  try {
    const value = read()
    return Number.isFinite(value) ? single(value) : []
  } catch {
    return []
  }
}
