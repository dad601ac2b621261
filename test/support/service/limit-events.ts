import { bucketRule, bundle, type PolicyText, policy } from '../bundles/bundles.ts'
import type { Edge } from './edge.ts'
import type { ManualClock } from './manual-clock.ts'
import { running } from './running.ts'

export const CALLER = { uri: '/api/x', fields: [['X-Caller', 'alice']] } as const

export function perCaller(id: string, mode: string, pathPrefix = '/api'): PolicyText {
  return policy(id, { mode, selector: { pathPrefix }, rules: [bucketRule('per-caller', ['header:x-caller'], 1, 0.0001)] })
}

export function start(clock: ManualClock, ...policies: PolicyText[]): Promise<Edge> {
  return running({ bundle: bundle(1, ...policies), clock })
}

/** Rejects and would-rejects, without what pino adds. */
export function lines(edge: Edge): Record<string, unknown>[] {
  return edge.log
    .filter(({ event }) => event === 'reject' || event === 'would_reject')
    .map(({ level: _level, time: _time, pid: _pid, hostname: _hostname, ...line }) => line)
}
