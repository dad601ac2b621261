import { expect, test } from 'vitest'
import { metric } from '../../support/service/metrics.ts'
import { budgetBundle, left, reserved, settle } from '../../support/settle/settling.ts'
import { servingOn } from '../../support/workers/workers.ts'

const WORKERS = 4
const RESERVATIONS = 12
const TIMES = 20

test('a reservation that is settled from many connections at once, at all workers, is settled once', async () => {
  const cli = await servingOn(WORKERS, budgetBundle(100_000))
  const tokens = await Promise.all(Array.from({ length: RESERVATIONS }, () => reserved(cli)))
  expect(new Set(tokens).size).toBe(RESERVATIONS)
  const attempts = tokens.flatMap((token) => Array.from({ length: TIMES }, () => settle(cli.port, token, { completion_tokens: 30 })))
  const statuses = (await Promise.all(attempts)).map(({ status }) => status)
  for (let i = 0; i < RESERVATIONS; i++) {
    const own = statuses.slice(i * TIMES, (i + 1) * TIMES)
    expect(own.filter((status) => status === 204)).toHaveLength(1)
    expect(own.filter((status) => status === 409)).toHaveLength(TIMES - 1)
  }
  expect(await left(cli)).toBe(100_000 - RESERVATIONS * 30)
  expect(await metric(cli.port, 'edge_settlements_total{outcome="already_settled"}')).toBe(RESERVATIONS * (TIMES - 1))
})
