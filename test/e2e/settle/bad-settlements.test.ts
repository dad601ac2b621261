import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Edge } from '../../support/service/edge.ts'
import { exchange } from '../../support/service/http.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { expectChangedRefused, expectPartsRefused } from '../../support/settle/changed-tokens.ts'
import { budgetBundle, errorOf, left, post, reserved, settle, settleWith } from '../../support/settle/settling.ts'

let edge: Edge
let token: string

beforeAll(async () => {
  edge = await Edge.start({ bundle: budgetBundle(1000) })
  token = await reserved(edge)
})

afterAll(() => edge.stop())

describe('what is no settlement gets 400, says why, and changes nothing:', () => {
  const usage = (value: unknown) => ({ reservation: 'x', usage: value })
  test.each<[unknown, string]>([
    [[], 'the body: expected an object with reservation, got an empty list'],
    ['x', 'the body: expected an object with reservation, got "x"'],
    [null, 'the body: expected an object with reservation, got null'],
    [{}, 'reservation: expected the value of X-Edge-Reservation, got nothing'],
    [{ reservation: '' }, 'reservation: expected the value of X-Edge-Reservation, got ""'],
    [{ reservation: 7 }, 'reservation: expected the value of X-Edge-Reservation, got 7'],
    [{ reservation: ['x'] }, 'reservation: expected the value of X-Edge-Reservation, got a list'],
    [{ reservation: 'x', usages: {} }, 'the body: expected only reservation, usage, cost, renew, got "usages"'],
    [usage(null), 'usage: expected an object with prompt_tokens and completion_tokens, got null'],
    [usage(5), 'usage: expected an object with prompt_tokens and completion_tokens, got 5'],
    [usage({}), 'usage: expected prompt_tokens or completion_tokens; leave usage out to give everything back, got an object'],
    [usage({ prompt_tokens: -1 }), 'usage.prompt_tokens: expected a whole number of at least 0, got -1'],
    [usage({ prompt_tokens: 1.5 }), 'usage.prompt_tokens: expected a whole number of at least 0, got 1.5'],
    [usage({ prompt_tokens: '5' }), 'usage.prompt_tokens: expected a whole number of at least 0, got "5"'],
    [usage({ prompt_tokens: null }), 'usage.prompt_tokens: expected a whole number of at least 0, got null'],
    [usage({ completion_tokens: 2 ** 53 }), 'usage.completion_tokens: expected a whole number of at least 0, got 9007199254740992'],
    [
      usage({ prompt_tokens: 1, prompt_tokens_details: { cached_tokens: 2 } }),
      'usage.cached_tokens: expected no more than prompt_tokens (1), which includes them, got 2',
    ],
    [
      usage({ prompt_tokens: 1, prompt_tokens_details: { cached_tokens: -2 } }),
      'usage.cached_tokens: expected a whole number of at least 0, got -2',
    ],
    [
      usage({ completion_tokens: 1, total: 1 }),
      'usage: expected only prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, total_tokens, prompt_tokens_details, completion_tokens_details, got "total"',
    ],
    [
      usage({ prompt_tokens: 1, cached_tokens: 2 }),
      'usage.cached_tokens: expected no more than prompt_tokens (1), which includes them, got 2',
    ],
    [
      usage({ prompt_tokens: 5, cached_tokens: 3, cache_write_tokens: 3 }),
      'usage.cache_write_tokens: expected no more than prompt_tokens (5) without cached_tokens (3), got 3',
    ],
    [
      usage({ prompt_tokens: 5, cache_write_tokens: 3, cache_write_1h_tokens: 4 }),
      'usage.cache_write_1h_tokens: expected no more than cache_write_tokens (3), which includes them, got 4',
    ],
    [usage({ prompt_tokens: 5, cache_write_tokens: '1' }), 'usage.cache_write_tokens: expected a whole number of at least 0, got "1"'],
    [{ reservation: 'x', cost: -1 }, 'cost: expected a number from 0 to 9000000, in units of the currency, got -1'],
    [{ reservation: 'x', cost: '1' }, 'cost: expected a number from 0 to 9000000, in units of the currency, got "1"'],
    [{ reservation: 'x', cost: 1e16 }, 'cost: expected a number from 0 to 9000000, in units of the currency, got 10000000000000000'],
    [{ reservation: 'x', renew: false }, 'renew: expected true (leave renew out to settle), got false'],
    [{ reservation: 'x', renew: true, cost: 1 }, 'renew: expected neither usage nor cost with renew: a renewal does not settle, got true'],
  ])('%j', async (settlement, message) => {
    expect(errorOf(await settleWith(edge.port, settlement))).toEqual({
      status: 400,
      code: 'bad_settlement',
      type: 'invalid_request_error',
      message,
    })
  })

  test.each([
    ['', 'the body: not JSON: it ends too early, at line 1, column 1'],
    ['{"reservation":"x"', 'the body: not JSON: it ends too early, at line 1, column 19'],
    ['{"reservation":x}', 'the body: not JSON: unexpected "x" at line 1, column 16'],
    ['{"reservation":"x","usage":{"prompt_tokens":NaN}}', 'the body: not JSON: unexpected "N" at line 1, column 45'],
    ['{"reservation":"x","cost":1e999}', 'cost: expected a number from 0 to 9000000, in units of the currency, got Infinity'],
    [
      '{"reservation":"x","reserv\\u0061tion":"y"}',
      'the body: "reservation" occurs twice in one object, the second time at line 1, column 20',
    ],
    ['{"reservation":"x","__proto__":{"usage":{}}}', 'the body: expected only reservation, usage, cost, renew, got "__proto__"'],
  ])('%s', async (body, message) => {
    expect(errorOf(await post(edge.port, body))).toMatchObject({ status: 400, code: 'bad_settlement', message })
  })
})

test('a compressed body gets 415', async () => {
  const fields = [
    ['Content-Type', 'application/json'],
    ['Content-Encoding', 'gzip'],
  ] as const
  expect(errorOf(await post(edge.port, JSON.stringify({ reservation: token }), fields))).toMatchObject({
    status: 415,
    code: 'unsupported_media_type',
  })
})

test.each([
  ['no type', []],
  ['a charset', [['Content-Type', 'Application/JSON ; charset=utf-8']]],
  ['plain text', [['Content-Type', 'text/plain;charset=UTF-8']]],
  ['form data', [['Content-Type', 'application/x-www-form-urlencoded']]],
] as const)('JSON that is called %s is fine', async (_, fields) => {
  const body = JSON.stringify({ reservation: await reserved(edge, 'types') })
  expect((await post(edge.port, body, fields)).status).toBe(204)
})

describe('a body', () => {
  const padded = (bytes: number): string => `{"reservation":"x"${' '.repeat(bytes - 19)}}`

  test('of 64 KiB is read, and one byte more gets 413', async () => {
    expect(errorOf(await post(edge.port, padded(64 * 1024)))).toMatchObject({ code: 'bad_reservation' })
    expect(errorOf(await post(edge.port, padded(64 * 1024 + 1)))).toMatchObject({ status: 413, code: 'settlement_too_large' })
  })

  test('that never ends gets 413 too, and the connection ends', async () => {
    const answer = await new Promise<string>((resolve) => {
      let received = ''
      const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`
      const head = 'POST /v1/settle HTTP/1.1\r\nHost: edge\r\nTransfer-Encoding: chunked\r\n\r\n'
      const socket = connect(edge.port, '127.0.0.1', () => socket.write(head + chunk.repeat(20)))
      socket.on('data', (data) => {
        received += data.toString('latin1')
      })
      socket.on('error', () => {})
      socket.on('close', () => resolve(received))
    })
    expect(answer).toContain('HTTP/1.1 413 ')
    expect(answer).toContain('Connection: close')
  })

  test('that is malformed gets 400', async () => {
    const head = 'POST /v1/settle HTTP/1.1\r\nHost: edge\r\nTransfer-Encoding: chunked\r\n\r\n'
    expect(await exchange(edge.port, `${head}1\r\n{\r\nno size\r\n`)).toMatch(/^HTTP\/1.1 400 /)
  })

  test('is waited for after 100 Continue', async () => {
    const body = JSON.stringify({ reservation: await reserved(edge, 'continue') })
    const fields = `Host: edge\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\n`
    expect(await exchange(edge.port, `POST /v1/settle HTTP/1.1\r\n${fields}\r\n${body}`)).toMatch(
      /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 204 No Content\r\n/,
    )
  })

  test('that does not come whole settles nothing', async () => {
    const whole = await reserved(edge, 'half')
    const body = JSON.stringify({ reservation: whole })
    await new Promise<void>((resolve) => {
      const head = `POST /v1/settle HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: ${body.length + 1}\r\n\r\n`
      const socket = connect(edge.port, '127.0.0.1', () => socket.end(head + body))
      socket.resume()
      socket.on('error', () => {})
      socket.on('close', () => resolve())
    })
    expect((await settle(edge.port, whole)).status).toBe(204)
  })

  test('may follow another on the same connection, before that is answered', async () => {
    const tokens = await Promise.all([reserved(edge, 'p1'), reserved(edge, 'p2'), reserved(edge, 'p3')])
    const requests = [...tokens, tokens[0]].map((reservation, i, { length }) => {
      const body = JSON.stringify({ reservation })
      const connection = i === length - 1 ? 'Connection: close\r\n' : ''
      return `POST /v1/settle HTTP/1.1\r\nHost: edge\r\n${connection}Content-Length: ${body.length}\r\n\r\n${body}`
    })
    const answers = await exchange(edge.port, requests.join(''))
    expect(answers.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 204', 'HTTP/1.1 204', 'HTTP/1.1 204', 'HTTP/1.1 409'])
  })
})

describe('a token', () => {
  test('that is not one of ours gets 400 bad_reservation', async () => {
    const other = await Edge.start({ bundle: budgetBundle(1000) })
    const foreign = await reserved(other)
    await other.stop()
    const near = [`${token}=`, ` ${token}`, `${token}A`, token.slice(0, -1), token.slice(1), token.toUpperCase(), `${token}\0`, foreign]
    for (const reservation of [...near, 'x', '0', 'null', '../..', 'AQ', 'A'.repeat(4000), 'A'.repeat(60_000), '\u{1f600}'.repeat(100)]) {
      expect(errorOf(await settleWith(edge.port, { reservation }))).toMatchObject({ status: 400, code: 'bad_reservation' })
    }
  })

  // All of them: bad-settlements.slow.test.ts
  test('of which any bit was changed is not one of ours', () => expectChangedRefused(edge.port, token, 61))

  test('of which a part is missing, or comes twice, is not one of ours', () => expectPartsRefused(edge.port, token, 45))

  test('says nothing of who was limited how', async () => {
    const bytes = Buffer.from(await reserved(edge, 'a-caller-with-a-long-name'), 'base64url')
    for (const text of ['a-caller', 'budget', 'header', 'x-key', 'UTC', '1d']) expect(bytes.includes(text)).toBe(false)
    const again = Buffer.from(await reserved(edge, 'a-caller-with-a-long-name'), 'base64url')
    // Version, instance, run and worker are the same; nothing is that is behind the number.
    const same = bytes.filter((byte, i) => i > 26 && byte === again[i]).length
    expect(same).toBeLessThan(bytes.length / 8)
  })
})

test('after all that, the reservation stands as it was, and can be settled', async () => {
  expect((await settle(edge.port, token, { completion_tokens: 40 })).status).toBe(204)
  expect(await left(edge)).toBe(960)
  const refused = await edge.metric('edge_settlements_total{outcome="bad_reservation"}')
  expect(refused).toBeGreaterThan(20)
  const lines = await untilLogged(edge, 'settlement_refused')
  expect(lines.length).toBeLessThan(refused)
  expect(JSON.stringify(edge.log)).not.toContain(token.slice(0, 40))
})
