import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { RawClient } from '../../support/proxy/proxy.ts'
import { sized } from '../../support/run/property-runs.ts'
import { AUTH_REQUEST, EXT_AUTHZ, FORWARD_AUTH, type HttpDoor, questionBytes } from '../../support/service/doors.ts'
import { exchange, type Fields } from '../../support/service/http.ts'
import { start } from '../../support/service/one-bucket.ts'
import { readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const DOORS = [FORWARD_AUTH, AUTH_REQUEST, EXT_AUTHZ]
/** Each door with one of them in `npm test`, and with all of them in `npm run test:full`. */
const METHODS = ['POST', 'GET', 'HEAD'].slice(0, sized(1, 3))
const CASES = DOORS.flatMap((door) => METHODS.map((method) => [method, door.path, door] as const))
const LARGE = sized(200_000, 1024 * 1024)

describe.each(CASES)('a body with %s %s', (method, _path, door) => {
  test('of any size is passed over, and the connection goes on', async () => {
    const { port } = await start(10)
    const parts: (Buffer | string)[] = []
    for (const size of [0, 20, LARGE]) parts.push(head(['Content-Length', String(size)]), 'x'.repeat(size))
    expect(await talk(port, ...parts, last())).toEqual(['9', '8', '7', '6'])
  })

  test('in chunks is passed over, and so is what looks like a question in it', async () => {
    const { port } = await start(10)
    const inner = questionBytes(door).toString('latin1')
    const body = `${inner.length.toString(16)};x=1\r\n${inner}\r\n0\r\nX-Trailer: x\r\n\r\n`
    const chunked = head(['Transfer-Encoding', 'chunked'])
    expect(await talk(port, chunked, body, chunked, body, last())).toEqual(['9', '8', '7'])
  })

  test('that has not come is not waited for', async () => {
    const { port } = await start(10)
    for (const field of [['Content-Length', '1000'] as const, ['Transfer-Encoding', 'chunked'] as const]) {
      const client = RawClient.connect(port)
      client.send(head(field))
      await until(() => client.received.includes('\r\n\r\n'))
      expect(readAnswers(client.received)).toMatchObject([{ status: 200, headers: { 'content-length': '0' } }])
    }
  })

  test('announced with Expect: 100-continue is not invited; the decision comes at once and is the last', async () => {
    const { port } = await start(10)
    const received = await exchange(port, head(['Content-Length', '1000'], ['Expect', '100-continue']))
    expect(readAnswers(received)).toMatchObject([{ status: 200, headers: { connection: 'close', 'ratelimit-remaining': '9' } }])
  })

  function head(...fields: Fields): Buffer {
    return questionBytes(door, { method, fields }, { ownMethod: method })
  }

  function last(): Buffer {
    return questionBytes(door, { method }, { ownMethod: method, isLast: true })
  }
})

describe.each(DOORS.map((door) => [door.path, door] as const))('questions to %s', (_path, door) => {
  test('in one write, byte by byte or cut in two anywhere get the same answers', async () => {
    const { port } = await start(1_000_000)
    const question = questionBytes(door, { uri: '/a?b=c', host: 'a.example.com' })
    const both = Buffer.concat([question, question])
    const answered = async (...pieces: Buffer[]): Promise<number[]> => {
      const client = connect(port, '127.0.0.1').setNoDelay(true)
      onTestFinished(() => void client.destroy())
      let received = ''
      client.on('data', (chunk) => {
        received += chunk.toString('latin1')
      })
      for (const piece of pieces) await new Promise<void>((resolve) => client.write(piece, () => resolve()))
      await until(() => received.split('\r\n\r\n').length > 2)
      return readAnswers(received).map(({ status }) => status)
    }
    expect(await answered(both)).toEqual([200, 200])
    expect(await answered(...Array.from(both, (byte) => Buffer.of(byte)))).toEqual([200, 200])
    const places = Array.from({ length: question.length }, (_, i) => i + 1).filter((at) => at % sized(9, 1) === 0)
    const cut = await Promise.all(places.map((at) => answered(both.subarray(0, at), both.subarray(at))))
    expect(new Set(cut.map(String))).toEqual(new Set(['200,200']))
  })

  test('pipelined are answered in their order, each charged once, among those of other doors', async () => {
    const { port } = await start(30)
    const round = [door, ...DOORS].map((each: HttpDoor) => questionBytes(each))
    const questions = Array.from({ length: 10 }, () => round).flat()
    const answers = readAnswers(await exchange(port, Buffer.concat([...questions, questionBytes(door, {}, { isLast: true })])))
    expect(answers.map(({ status }) => status)).toEqual([...Array(30).fill(200), ...Array(11).fill(429)])
    expect(answers.slice(0, 30).map(({ headers }) => Number(headers['ratelimit-remaining']))).toEqual(
      Array.from({ length: 30 }, (_, i) => 29 - i),
    )
  })
})

/** What each answer says is left. */
async function talk(port: number, ...parts: (Buffer | string)[]): Promise<(string | undefined)[]> {
  const received = await exchange(port, Buffer.concat(parts.map((part) => Buffer.from(part))))
  return readAnswers(received).map(({ headers }) => headers['ratelimit-remaining'])
}
