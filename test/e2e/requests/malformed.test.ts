import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Edge } from '../../support/service/edge.ts'
import { exchange } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { portOf } from '../../support/service/port-of.ts'
import { running } from '../../support/service/running.ts'

const START = 'POST /v1/decision HTTP/1.1\r\nHost: edge\r\n'
const FIELDS = 'X-Original-Method: GET\r\nX-Original-URI: /\r\n'

const REFUSED: readonly (readonly [what: string, bytes: string, status: number])[] = [
  ['no request line', '\r\n\r\n\r\nhello\r\n\r\n', 400],
  ['prose', 'may this request go on?\r\n\r\n', 400],
  ['a request line without a target', `POST HTTP/1.1\r\n${FIELDS}\r\n`, 400],
  ['a target with a space', `POST /v1/decision /x HTTP/1.1\r\nHost: edge\r\n${FIELDS}\r\n`, 400],
  ['a version that does not exist', `POST /v1/decision HTTP/9.9\r\nHost: edge\r\n${FIELDS}\r\n`, 400],
  ['an unknown method', `DECIDE /v1/decision HTTP/1.1\r\nHost: edge\r\n${FIELDS}\r\n`, 400],
  ['a TLS greeting', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
  ['an HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['NUL in a value', `${START}X-Original-Method: GET\r\nX-Original-URI: /a\x00b\r\n\r\n`, 400],
  ['NUL in a name', `${START}${FIELDS}X-\x00A: b\r\n\r\n`, 400],
  ['a bare CR in a value', `${START}${FIELDS}X-A: b\rX-B: c\r\n\r\n`, 400],
  ['a space before the colon', `${START}${FIELDS}X-A : b\r\n\r\n`, 400],
  ['a field without a colon', `${START}${FIELDS}X-A\r\n\r\n`, 400],
  ['a field without a name', `${START}${FIELDS}: b\r\n\r\n`, 400],
  ['a folded line before all others', `POST /v1/decision HTTP/1.1\r\n folded\r\nHost: edge\r\n${FIELDS}\r\n`, 400],
  ['no Host', `POST /v1/decision HTTP/1.1\r\n${FIELDS}\r\n`, 400],
  ['an empty Host', `POST /v1/decision HTTP/1.1\r\nHost:\r\n${FIELDS}\r\n`, 400],
  ['a Host with a path', `POST /v1/decision HTTP/1.1\r\nHost: edge/a\r\n${FIELDS}\r\n`, 400],
  ['a Host with a user', `POST /v1/decision HTTP/1.1\r\nHost: a@edge\r\n${FIELDS}\r\n`, 400],
  ['two Hosts', `${START}${FIELDS}Host: other\r\n\r\n`, 400],
  ['two Hosts that agree', `${START}${FIELDS}Host: edge\r\n\r\n`, 400],
  ['two Hosts on another path', 'GET /livez HTTP/1.1\r\nHost: edge\r\nHost: other\r\n\r\n', 400],
  ['two Hosts of which one is the original', 'GET /v1/ext-authz/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n', 400],
  ['an empty Host that is the original', 'GET /v1/ext-authz/ HTTP/1.1\r\nHost:\r\n\r\n', 400],
  ['HTTP/2.0', `POST /v1/decision HTTP/2.0\r\nHost: edge\r\n${FIELDS}\r\n`, 400],
  ['chunks in HTTP/1.0', `POST /v1/decision HTTP/1.0\r\nHost: edge\r\n${FIELDS}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
  ['a transfer coding alone that is not chunked', `${START}${FIELDS}Transfer-Encoding: foo\r\n\r\n`, 400],
  ['another transfer coding before chunks', `${START}${FIELDS}Transfer-Encoding: foo, chunked\r\n\r\n0\r\n\r\n`, 400],
  [
    'another transfer coding in a line before',
    `${START}${FIELDS}Transfer-Encoding: foo\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    400,
  ],
  ['chunked twice', `${START}${FIELDS}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
  ['CONNECT', 'CONNECT edge:80 HTTP/1.1\r\nHost: edge:80\r\n\r\n', 405],
  ['two lengths', `${START}${FIELDS}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`, 400],
  ['a length that is no number', `${START}${FIELDS}Content-Length: ten\r\n\r\n`, 400],
  ['a negative length', `${START}${FIELDS}Content-Length: -1\r\n\r\n`, 400],
  ['a length and chunks', `${START}${FIELDS}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
  ['an unknown transfer coding', `${START}${FIELDS}Transfer-Encoding: chunked, zip\r\n\r\n`, 400],
  ['100 KB in one field', `${START}${FIELDS}X-A: ${'x'.repeat(100_000)}\r\n\r\n`, 431],
  ['100 KB in many fields', `${START}${FIELDS}${'X-A: 12345\r\n'.repeat(12_500)}\r\n`, 431],
  ['a URI of 100 KB', `POST /v1/decision?${'x'.repeat(100_000)} HTTP/1.1\r\nHost: edge\r\n${FIELDS}\r\n`, 431],
]

describe('what is not HTTP', () => {
  let edge: Edge
  beforeAll(async () => {
    edge = await Edge.start({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 1000)] })), clock: new ManualClock() })
  })
  afterAll(() => edge.stop())

  test.each(REFUSED)('%s: is refused, the connection closed, nothing taken', async (_what, bytes, status) => {
    const before = await remaining()
    expect(statusesIn(await exchange(edge.port, Buffer.from(bytes, 'latin1')))).toEqual([status])
    expect(await remaining()).toBe(before - 1)
  })

  test('with questions behind it in the same packet: takes nothing for them', async () => {
    for (const [what, bytes, status] of REFUSED.filter(([what]) => /Host|HTTP\/2|transfer coding|chunk|CONNECT/.test(what))) {
      const before = await remaining()
      const received = await exchange(edge.port, Buffer.from(`${bytes}${START}${FIELDS}\r\n`, 'latin1'))
      expect(statusesIn(received), what).toEqual([status])
      expect(await remaining(), what).toBe(before - 1)
    }
  })

  test.each([1, 40])(
    'CONNECT behind %i good questions with bodies: each of them keeps its answer, and then comes the 405',
    async (count) => {
      const question = `${START}${FIELDS}Content-Length: 1\r\n\r\nb`
      const bytes = `${question.repeat(count)}CONNECT edge:80 HTTP/1.1\r\nHost: edge:80\r\n\r\n${question}`
      expect(statusesIn(await exchange(edge.port, Buffer.from(bytes)))).toEqual([...Array(count).fill(200), 405])
    },
  )

  test('after a good question: the good one keeps its answer, and there is no other', async () => {
    const received = await exchange(edge.port, Buffer.from(`${START}${FIELDS}\r\nnonsense\r\n\r\n`))
    expect(statusesIn(received).filter((status) => status !== 400)).toEqual([200])
  })

  test('after good questions with bodies: each of them keeps its answer, and then comes the 400', async () => {
    const question = `${START}${FIELDS}Content-Length: 1\r\n\r\nb`
    expect(statusesIn(await exchange(edge.port, Buffer.from(`${question.repeat(40)}nonsense\r\n\r\n`)))).toEqual([
      ...Array(40).fill(200),
      400,
    ])
  })

  test('a question with Upgrade is the last on its connection: what came along is not answered, and its client can tell', async () => {
    const before = await remaining()
    const upgrade = `${START}${FIELDS}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`
    expect(statusesIn(await exchange(edge.port, Buffer.from(`${upgrade}${START}${FIELDS}\r\n`)))).toEqual([200])
    expect(await remaining()).toBe(before - 2)
    // Gateways pass on what their clients send, and Upgrade alone means nothing.
    const unnamed = upgrade.replace('Connection: Upgrade\r\n', '')
    expect(statusesIn(await exchange(edge.port, Buffer.from(`${unnamed}${START}${FIELDS}Connection: close\r\n\r\n`)))).toEqual([200, 200])
  })

  test('a question with Expect is the last on its connection: what came along takes nothing', async () => {
    const before = await remaining()
    const expecting = `${START}${FIELDS}Expect: 100-continue\r\n\r\n`
    const another = `${START}${FIELDS}Content-Length: 0\r\n\r\n`
    expect(statusesIn(await exchange(edge.port, Buffer.from(`${expecting}${another}${another}`)))).toEqual([200])
    expect(await remaining()).toBe(before - 2)
  })

  test('a bad chunk after the head: the question keeps its answer', async () => {
    const received = await exchange(edge.port, Buffer.from(`${START}${FIELDS}Transfer-Encoding: chunked\r\n\r\nxyz\r\n`))
    expect(statusesIn(received).filter((status) => status !== 400)).toEqual([200])
  })

  test('a caller that goes away in the middle of anything is no trouble', async () => {
    for (const bytes of ['', 'P', START, `${START}${FIELDS}`, `${START}${FIELDS}Content-Length: 9\r\n\r\nhalf`, `${START}${FIELDS}\r\n`]) {
      for (const leave of ['destroy', 'resetAndDestroy', 'end'] as const) {
        await new Promise<void>((resolve) => {
          const socket = connect(edge.port, '127.0.0.1', () => socket.write(bytes, () => socket[leave]()))
          socket
            .resume()
            .on('error', () => {})
            .on('close', () => resolve())
          if (bytes === '') socket.once('connect', () => socket[leave]())
        })
      }
    }
    expect((await edge.get('/livez')).body).toBe('ok')
  })

  async function remaining(): Promise<number> {
    return Number((await edge.decide()).headers['ratelimit-remaining'])
  }
})

describe('the admin port refuses, and ends the connection', () => {
  let edge: Edge
  beforeAll(async () => {
    edge = await Edge.start({ bundle: bundle(1), env: { EDGE_ADMIN_PORT: '0' } })
  })
  afterAll(() => edge.stop())

  test.each([
    ['two Hosts', 'GET /livez HTTP/1.1\r\nHost: edge\r\nHost: other\r\n\r\n', 400],
    ['no Host', 'GET /livez HTTP/1.1\r\n\r\n', 400],
    ['a Host with a path', 'GET /livez HTTP/1.1\r\nHost: edge/a\r\n\r\n', 400],
    ['HTTP/2.0', 'GET /livez HTTP/2.0\r\nHost: edge\r\n\r\n', 400],
    ['chunks in HTTP/1.0', 'GET /livez HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
    ['another transfer coding before chunks', 'GET /livez HTTP/1.1\r\nHost: edge\r\nTransfer-Encoding: foo, chunked\r\n\r\n0\r\n\r\n', 400],
    ['CONNECT', 'CONNECT edge:80 HTTP/1.1\r\nHost: edge:80\r\n\r\n', 405],
  ])('%s', async (_what, bytes, status) => {
    const port = portOf(edge.service.addresses.get('admin'))!
    const good = 'GET /livez HTTP/1.1\r\nHost: edge\r\n\r\n'
    expect(statusesIn(await exchange(port, `${good}${bytes}${good}`))).toEqual([200, status])
  })
})

describe('HTTP that is seldom used', () => {
  test('HTTP/1.0 is answered and closed', async () => {
    const edge = await start()
    const received = await exchange(edge.port, `POST /v1/decision HTTP/1.0\r\n${FIELDS}\r\n`)
    expect(statusesIn(received)).toEqual([200])
    expect(received).toMatch(/^Connection: close\r$/im)
    expect(received).toMatch(/^RateLimit-Remaining: 99\r$/m)
  })

  test('HTTP/1.0 with keep-alive is answered, twice', async () => {
    const edge = await start()
    const question = (connection: string): string => `POST /v1/decision HTTP/1.0\r\nConnection: ${connection}\r\n${FIELDS}\r\n`
    expect(statusesIn(await exchange(edge.port, question('keep-alive') + question('close')))).toEqual([200, 200])
  })

  test.each(['http://edge.internal/v1/decision', 'http://edge:8080/v1/decision?x=1', 'HTTPS://EDGE/v1/decision'])(
    'the absolute form %s finds the endpoint',
    async (target) => {
      const edge = await start()
      const received = await exchange(edge.port, `POST ${target} HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n${FIELDS}\r\n`)
      expect(statusesIn(received)).toEqual([200])
    },
  )

  test('a request to upgrade is decided like any other', async () => {
    const edge = await start()
    const fields = 'Connection: Upgrade, close\r\nUpgrade: websocket\r\n'
    expect(statusesIn(await exchange(edge.port, `${START}${fields}${FIELDS}\r\n`))).toEqual([200])
  })
})

function start(): Promise<Edge> {
  return running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 100)] })), clock: new ManualClock() })
}

function statusesIn(received: string): number[] {
  return (received.match(/HTTP\/1\.1 \d{3} /g) ?? []).map((line) => Number(line.slice(9, 12)))
}
