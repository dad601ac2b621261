import { expect, test } from 'vitest'
import { ServedUsage } from './served-usage.ts'

test('any number of invented models is counted in bounded memory', () => {
  const usage = new ServedUsage()
  for (let i = 0; i < 1005; i++) usage.begin(`m${i}`, 2)(3)
  usage.begin('m0', 2)(3)
  const { responses, models } = usage.toJSON() as { responses: number; models: Record<string, unknown> }
  expect(responses).toBe(1006)
  expect(Object.keys(models)).toHaveLength(1001)
  expect(models['(others)']).toEqual({ requests: 5, prompt_tokens: 10, completion_tokens: 15 })
  expect(models['m0']).toEqual({ requests: 2, prompt_tokens: 4, completion_tokens: 6 })
})
