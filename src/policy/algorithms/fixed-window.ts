import { z } from 'zod'
import { tokens } from '../schema-parts.ts'
import type { CompiledRule } from './compiled-rule.ts'
import { compileRequestCost, requestCostConfig, requestCostSurprises } from './request-cost.ts'
import { windowConfig, windowIdentity, windowLimit } from './window-config.ts'

export const fixedWindowConfig = z.object(
  {
    limit: tokens('requests').meta({ description: 'Requests in each window.' }),
    ...windowConfig,
    ...requestCostConfig,
  },
  { error: 'an object with limit and period' },
)

type Config = z.output<typeof fixedWindowConfig>

export function compileFixedWindow(config: Config): CompiledRule {
  const limit = windowLimit(config.limit, config.period, config.timezone, config.when_over === 'charge')
  const cost = compileRequestCost(config)
  return { cost, limits: [{ part: 'window', limit, reason: 'quota_exceeded', identity: windowIdentity(limit) }] }
}

export function fixedWindowSurprises(config: Config): Generator<string> {
  return requestCostSurprises(config, config.limit, 'limit')
}
