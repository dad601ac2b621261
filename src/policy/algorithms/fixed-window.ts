import type { FixedWindowConfig } from '../schema/fixed-window.ts'
import type { CompiledRule, PartLimit } from './compiled-rule.ts'
import { compileRequestCost, requestCostSurprises, windowIdentity, windowLimit } from './request-cost.ts'

export function compileFixedWindow(config: FixedWindowConfig): CompiledRule {
  return { cost: compileRequestCost(config) }
}

export function fixedWindowLimits(config: FixedWindowConfig): PartLimit[] {
  const limit = windowLimit(config.limit, config, config.when_over === 'charge')
  return [{ part: 'window', limit, reason: 'quota_exceeded', identity: windowIdentity(limit) }]
}

export function fixedWindowSurprises(config: FixedWindowConfig): Generator<string> {
  return requestCostSurprises(config, config.limit, 'limit')
}
