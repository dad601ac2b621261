import { createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { openLink, usableLink } from '../../support/redis/recorded-link.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { until } from '../../support/until.ts'

/** Of links whose calls are to be given up. It passes when the test says so. */
const BRIEF_MS = 200
/** A connection that is silent for so long is replaced. */
const SILENCE_MS = 1000

describeWithRedis('a link over a bad network', () => {
  const shared = redisOfSuite()

  test('cut before the answer: each call was done once, nobody knows, and none is sent again', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const { link, countUp, circuits } = await usableLink(`redis://${gate.address}`)
    const cut = gate.cutAfterAnswerBytes(0)
    const calls = Promise.all(['edge:a', 'edge:a', 'edge:b'].map((key) => countUp(key).catch((error) => error.outcome)))
    await cut
    expect(await calls).toEqual(['unknown', 'unknown', 'unknown'])
    await until(() => link.isUsable(0))
    expect(await redis.command('MGET', 'edge:a', 'edge:b')).toEqual(['2', '1'])
    expect(await countUp('edge:a')).toBe('3')
    expect(circuits.map((line) => line.split(' ')[1])).toEqual(['opened:', 'closed:'])
    expect(gate.connections).toBe(2)
  })

  test('cut in the middle of the answers: what was answered is known, the rest is not', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const { link, countUp } = await usableLink(`redis://${gate.address}`)
    // "$1\r\n1\r\n" is 7 bytes
    const cut = gate.cutAfterAnswerBytes(10)
    const calls = Promise.all(['edge:a', 'edge:a', 'edge:a'].map((key) => countUp(key).catch((error) => error.outcome)))
    await cut
    expect(await calls).toEqual(['1', 'unknown', 'unknown'])
    await until(() => link.isUsable(0))
    expect(await countUp('edge:a')).toBe('4')
  })

  test('cut before Redis hears of it: unknown too, and it is not sent again', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const { link, countUp } = await usableLink(`redis://${gate.address}`)
    const cut = gate.cutBeforeNextRequest()
    const call = countUp('edge:a').catch((error) => error.outcome)
    await cut
    expect(await call).toBe('unknown')
    await until(() => link.isUsable(0))
    expect(await redis.command('GET', 'edge:a')).toBe(null)
  })

  test('a late answer is of no use to anybody, and goes to no other call', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const { link, countUp, deadlines } = await usableLink(`redis://${gate.address}`, BRIEF_MS)
    gate.hold('answers')
    await expect(deadlines.passDuring(BRIEF_MS, countUp('edge:a'))).rejects.toMatchObject({ outcome: 'unknown', code: 'timeout' })
    const next = countUp('edge:b')
    gate.release()
    expect(await next).toBe('1')
    await until(() => link.isUsable(0))
    expect(await countUp('edge:a')).toBe('2')
  })

  test('an answer that is always late keeps the circuit open, and the connection', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const { link, countUp, circuits, errors, deadlines } = await usableLink(`redis://${gate.address}`, BRIEF_MS)
    gate.hold('answers')
    await expect(deadlines.passDuring(BRIEF_MS, countUp('edge:a'))).rejects.toMatchObject({ code: 'timeout' })
    // Probes, one after another: each is answered when it has been given up.
    for (let lateAnswers = 1; lateAnswers < 4; lateAnswers++) {
      await deadlines.passUntil(BRIEF_MS, () => errors.length > lateAnswers)
      await deadlines.giveUp(BRIEF_MS)
      gate.release()
      gate.hold('answers')
    }
    expect({ isUsable: link.isUsable(0), connections: gate.connections, circuits: circuits.length }).toEqual({
      isUsable: false,
      connections: 1,
      circuits: 1,
    })
    gate.release()
    await until(() => link.isUsable(0))
    expect(gate.connections).toBe(1)
  })

  test('a connection that was swallowed is given up for a new one, though the old one never closed', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const { link, countUp, circuits, deadlines } = await usableLink(`redis://${gate.address}`, BRIEF_MS)
    gate.hold()
    await expect(deadlines.passDuring(BRIEF_MS, countUp('edge:a'))).rejects.toMatchObject({ code: 'timeout' })
    await deadlines.passUntil(SILENCE_MS, () => gate.connections > 1)
    gate.release()
    await until(() => link.isUsable(0))
    expect(circuits.map((line) => line.split(' ')[1])).toEqual(['opened:', 'closed:'])
    expect(await redis.command('GET', 'edge:a')).toBe(null)
  })

  test('who accepts and never answers the greeting is tried anew', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    gate.hold()
    const { link, circuits, deadlines } = openLink(`redis://${gate.address}`)
    await until(() => gate.connections > 0)
    await deadlines.passUntil(1500, () => gate.connections > 1)
    gate.release()
    await until(() => link.isUsable(0))
    expect(circuits[0]).toBe(`${gate.address} opened: it accepts connections, but there was no answer to the handshake within 1500 ms`)
  })

  test('TLS to who does not speak it, or does not speak at all, is told as such', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    gate.hold()
    const texts = await runningAnswerer('HTTP/1.1 400 Bad Request\r\n\r\n')
    const links = [redis.address, gate.address, texts].map((address) => openLink(`rediss://${address}`))
    await until(() => gate.connections > 0)
    await until(() => links[2]!.circuits.length > 0)
    for (const { deadlines, circuits } of links) await deadlines.passUntil(1500, () => circuits.length > 0)
    const silent = 'opened: does it speak TLS? There was no answer to the TLS handshake within 1500 ms'
    // Redis waits for the end of what it takes for a line, or refuses it, as chance will have it.
    expect(links[0]!.circuits[0]).toMatch(/opened: (does it speak TLS\?|it does not speak TLS)/)
    expect(links[1]!.circuits).toEqual([`${gate.address} ${silent}`])
    expect(links[2]!.circuits).toEqual([`${texts} opened: it does not speak TLS`])
  })

  test.for(['+OK\r\n', ':1\r\n', '$2\r\n1 \r\n', '*0\r\n'])('who answers %j to everything is not taken for Redis', async (answer) => {
    const address = await runningAnswerer(answer)
    const { link, circuits } = openLink(`redis://${address}`)
    await until(() => circuits.length > 0)
    expect(circuits).toEqual([`${address} opened: it does not answer like Redis`])
    expect(link.isUsable(0)).toBe(false)
  })

  test('the calls of one turn leave together', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const { countUp, roundTrips } = await usableLink(`redis://${gate.address}`)
    expect(roundTrips).toBe(1)
    const before = Number(await redis.info('total_reads_processed'))
    await Promise.all(Array.from({ length: 100 }, () => countUp('edge:a')))
    // Ours of INFO is one of them, and a probe may be another. A busy kernel may hand over a write in pieces, not in a hundred.
    expect(Number(await redis.info('total_reads_processed')) - before).toBeLessThan(50)
  })
})

/** Says this to each command, or to whatever else comes. */
async function runningAnswerer(answer: string): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}) // its 'close' follows
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (chunk) => socket.write(answer.repeat(chunk.toString('latin1').match(/\*\d+\r\n/g)?.length ?? 1)))
  })
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const port = await serverPort()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return `127.0.0.1:${port}`
}
