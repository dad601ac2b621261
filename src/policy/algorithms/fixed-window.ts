import type { FixedWindowConfig } from '../schema/fixed-window.ts'
import type { CompiledRule } from './compiled-rule.ts'
import { compileRequestCost, requestCostSurprises } from './request-cost.ts'
import { windowIdentity, windowLimit } from './window-limit.ts'

export function compileFixedWindow(config: FixedWindowConfig): CompiledRule {
  const limit = windowLimit(config.limit, config.period, config.timezone, config.when_over === 'charge')
  const cost = compileRequestCost(config)
  return { cost, limits: [{ part: 'window', limit, reason: 'quota_exceeded', identity: windowIdentity(limit) }] }
}

export function fixedWindowSurprises(config: FixedWindowConfig): Generator<string> {
  return requestCostSurprises(config, config.limit, 'limit')
}
