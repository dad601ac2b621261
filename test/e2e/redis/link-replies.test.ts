import { createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { usableLink } from '../../support/redis/recorded-link.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { until } from '../../support/until.ts'

/** Of links whose calls are to be given up. It passes when the test says so. */
const BRIEF_MS = 200

describeWithRedis('many calls at once', () => {
  const shared = redisOfSuite()

  test('ten thousand calls of a turn are each done once, and each gets its own reply', async () => {
    const redis = shared()
    const { countUp, circuits, errors } = await usableLink(redis.url, 600_000)
    const replies = await Promise.all(Array.from({ length: 10_000 }, () => countUp('edge:a')))
    expect(replies).toEqual(Array.from({ length: 10_000 }, (_, i) => String(i + 1)))
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test('a script that Redis lost while calls were under way is sent in full once, not with each of them', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const { countUp, link, circuits, errors } = await usableLink(`redis://${gate.address}`, 600_000)
    const count = 1000
    const half = () => Array.from({ length: count / 2 }, () => countUp('edge:a'))
    await redis.resetCalls()
    // Flushed by a call in the middle, so that the calls of one write before it run, and those after it do not.
    const calls = [...half(), link.command('script', 'flush'), ...half()]
    expect(await Promise.all(calls)).toEqual([
      ...Array.from({ length: count / 2 }, (_, i) => String(i + 1)),
      'OK',
      ...Array.from({ length: count / 2 }, (_, i) => String(count / 2 + i + 1)),
    ])
    const counts = await redis.calls()
    expect([counts.get('eval'), counts.get('evalsha')]).toEqual([1, count + count / 2 - 1])
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test('two scripts that Redis lost while calls of both were under way are each sent in full once', async () => {
    const redis = shared()
    const { countUp, countUpToo, link, circuits, errors } = await usableLink(redis.url, 600_000)
    const count = 1000
    await countUpToo('edge:a')
    await redis.resetCalls()
    const calls = [
      link.command('script', 'flush'),
      ...Array.from({ length: count }, (_, i) => (i % 2 === 0 ? countUp : countUpToo)('edge:a')),
    ]
    const [, ...replies] = await Promise.all(calls)
    expect(replies.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, i) => i + 2))
    const counts = await redis.calls()
    expect([counts.get('eval'), counts.get('evalsha')]).toEqual([2, 2 * count - 2])
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test('a script that is lost again and again is sent again each time', async () => {
    const redis = shared()
    const { countUp, link } = await usableLink(redis.url, 600_000)
    for (let i = 1; i < 20; i++) {
      const [, count, again] = await Promise.all([link.command('script', 'flush'), countUp('edge:a'), countUp('edge:a')])
      expect([count, again]).toEqual([String(2 * i - 1), String(2 * i)])
    }
  })

  test('cut at any byte of the replies: calls are done once, and only those before the cut are known', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const { link, countUp } = await usableLink(`redis://${gate.address}`, 600_000)
    let done = 0
    // Three replies of 8 bytes each, once the counts have two digits.
    while (done < 10) done = Number(await countUp('edge:a'))
    for (let bytes = 0; bytes < 24; bytes++) {
      const cut = gate.cutAfterAnswerBytes(bytes)
      const calls = Promise.all(Array.from({ length: 3 }, () => countUp('edge:a').catch((error) => error.outcome)))
      await cut
      const known = Array.from({ length: Math.floor(bytes / 8) }, (_, i) => String(done + i + 1))
      expect(await calls).toEqual([...known, ...new Array(3 - known.length).fill('unknown')])
      done += 3
      await until(() => link.isUsable(0))
      expect(await redis.command('GET', 'edge:a')).toBe(String(done))
    }
  })
})

// What is said is said by a server of the test's own, which answers the calls in its own way.

test('a reply that arrives byte by byte is one reply', async () => {
  const { link } = await usableLink(await answering((index) => `$1\r\n${index % 10}\r\n`, { isSlow: true }))
  const replies = await Promise.all(Array.from({ length: 5 }, () => link.command('get', 'edge:a')))
  expect(replies.map(Number)).toEqual(replies.map((_, i) => (Number(replies[0]) + i) % 10))
})

test('a reply that never comes ends its call and those behind it, at their deadline', async () => {
  let isMute = false
  const { link, deadlines, circuits } = await usableLink(await answering(() => (isMute ? '' : '$1\r\n1\r\n')), BRIEF_MS)
  isMute = true
  const calls = Promise.all([1, 2, 3].map(() => link.command('get', 'edge:a').catch((error) => error.code)))
  expect(await deadlines.passDuring(BRIEF_MS, calls)).toEqual(['timeout', 'timeout', 'timeout'])
  expect(circuits).toEqual([expect.stringContaining('no answer within')])
})

test.for([
  ['a line of another protocol', 'HTTP/1.1 400 Bad Request\r\n\r\n', 'it does not speak the protocol of Redis'],
  ['one reply too many', '$1\r\n1\r\n$1\r\n1\r\n', 'it sends replies that nobody asked for'],
  ['an endless line', `+${'x'.repeat(100_000)}`, 'a line of a reply is too long'],
] as const)('%s ends the connection, with its reason, and no call gets the reply of another', async ([, answer, reason]) => {
  let isOdd = false
  const { link, errors } = await usableLink(await answering(() => (isOdd ? answer : '$1\r\n1\r\n')))
  isOdd = true
  const outcomes = Promise.all([1, 2].map(() => link.command('get', 'edge:a').catch((error) => error.outcome)))
  await until(() => errors.some((line) => line.endsWith(reason)))
  for (const outcome of await outcomes) expect(['1', 'unknown']).toContain(outcome)
  isOdd = false
  await until(() => link.isUsable(0))
  expect(await link.command('get', 'edge:a')).toBe('1')
})

test.for([
  ['BUSY Redis is busy running a script.', 'BUSY'],
  ['LOADING Redis is loading the dataset in memory', 'LOADING'],
  ["OOM command not allowed when used memory > 'maxmemory'.", 'OOM'],
  ['MISCONF Redis is configured to save RDB snapshots', 'MISCONF'],
])('-%s to one call of many is a refusal of that one, and the circuit opens', async ([message, code]) => {
  let refused = -1
  const { link, countUp, circuits } = await usableLink(await answering((index) => (index === refused ? `-${message}\r\n` : '$1\r\n1\r\n')))
  refused = asked + 1
  const calls = [1, 2, 3].map(() => countUp('edge:a').catch((error) => [error.outcome, error.code]))
  expect(await Promise.all(calls)).toEqual(['1', ['refused', code], '1'])
  expect(circuits[0]).toContain(`opened: ${code}`)
  await until(() => link.isUsable(0))
})

/** Commands that the last server got. */
let asked = 0

/** Returns the address of a server that says to each command what `answer` returns for its number. */
async function answering(answer: (index: number) => string, { isSlow = false } = {}): Promise<string> {
  asked = 0
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.setNoDelay(true))
    socket.on('error', () => {}) // its 'close' follows
    socket.on('close', () => sockets.delete(socket))
    let lane = Promise.resolve()
    socket.on('data', (chunk) => {
      for (const _command of chunk.toString('latin1').match(/\*\d+\r\n/g) ?? []) {
        const text = answer(asked++)
        if (isSlow) lane = lane.then(() => drip(socket, text))
        else if (text !== '') socket.write(text)
      }
    })
  })
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const port = await serverPort()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return `redis://127.0.0.1:${port}`
}

/** Writes a text byte by byte, each in a turn of its own. */
async function drip(socket: Socket, text: string): Promise<void> {
  for (const character of text) {
    socket.write(character)
    await new Promise(setImmediate)
  }
}
