import { describe, expect, test } from 'vitest'
import { exchange } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { expectChangedRefused, expectPartsRefused } from '../../support/settle/changed-tokens.ts'
import { budgetBundle, left, reserved, settle } from '../../support/settle/settling.ts'

/** A machine would have to stand still for so long between a connection and its first bytes. */
const TIMEOUT_MS = '5000'

test('a settlement that is not all here in time gets 408: nobody is waited for without end', async () => {
  const env = { EDGE_REQUEST_TIMEOUT_MS: TIMEOUT_MS, EDGE_HEADERS_TIMEOUT_MS: TIMEOUT_MS }
  const edge = await running({ bundle: budgetBundle(1000), env })
  const partial = 'POST /v1/settle HTTP/1.1\r\nHost: edge\r\nContent-Length: 100\r\n\r\n{'
  const question = 'POST /v1/decision HTTP/1.1\r\nHost: edge\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\n\r\n'
  const [alone, both] = await Promise.all([exchange(edge.port, partial), exchange(edge.port, `${question}${partial}`)])
  expect(alone).toMatch(/^HTTP\/1.1 408 /)
  expect(both.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 408'])
})

describe('a token', () => {
  test.each([
    ['of which any bit was changed', expectChangedRefused, 7],
    ['of which a part is missing, or comes twice,', expectPartsRefused, 9],
  ])('%s is not one of ours', async (_what, expectRefused, step) => {
    const edge = await running({ bundle: budgetBundle(1000) })
    const token = await reserved(edge)
    await expectRefused(edge.port, token, step)
    expect((await settle(edge.port, token, { completion_tokens: 40 })).status).toBe(204)
    expect(await left(edge)).toBe(960)
  })
})
