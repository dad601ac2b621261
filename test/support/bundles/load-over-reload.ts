import { onTestFinished } from 'vitest'
import type { Edge } from '../service/edge.ts'
import { Load } from '../service/load.ts'
import { original } from '../service/wire.ts'
import { until } from '../until.ts'
import { bucketRule, bundle, policy } from './bundles.ts'

export const STEADY_BURST = 1_000_000
export const TRIAL_BURST = 5
export const STEP = 40

export function withTrial(version: number, mode: string): object {
  return bundle(
    version,
    policy('steady', { rules: [bucketRule('steady', ['header:x-caller'], STEADY_BURST)] }),
    policy('trial', { mode, rules: [bucketRule('trial', ['header:x-caller'], TRIAL_BURST)] }),
  )
}

export function start(edge: Edge): Load {
  const load = new Load(edge.port, original('/', ['X-Caller', 'alice']), 8)
  onTestFinished(() => load.stop())
  return load
}

export async function more(load: Load): Promise<void> {
  const target = load.total + STEP
  await until(() => load.total >= target)
}

export async function remaining(edge: Edge): Promise<number> {
  return Number((await edge.decide({ fields: [['X-Caller', 'alice']] })).headers['ratelimit-remaining'])
}
