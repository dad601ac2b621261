import { createHash } from 'node:crypto'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kind, patternOf } from '../support/proxy/pattern.ts'
import { Random } from '../support/random/random.ts'
import type { Findings } from './findings.ts'

const KINDS: readonly Kind[] = ['counted', 'chunked', 'endless', 'events']
const LONGEST = [1, 20, 300, 3000]

/** Clients of paths that no policy covers, of whom every byte is compared: slow readers, pipelines, uploads in chunks. */
export class StreamLoad {
  responses = 0
  #isOver = false
  readonly #port: number
  readonly #findings: Findings
  /** Connections may break. */
  readonly #mayBeLost: boolean
  readonly #lanes: Promise<void>[]

  constructor(port: number, findings: Findings, mayBeLost: boolean, random: Random, lanes: number) {
    this.#port = port
    this.#findings = findings
    this.#mayBeLost = mayBeLost
    this.#lanes = Array.from({ length: lanes }, (_, lane) => this.#run(`lane ${lane}`, new Random(random.below(2 ** 32))))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
  }

  async #run(lane: string, random: Random): Promise<void> {
    const agent = new Agent({ keepAlive: true })
    for (let turn = 0; !this.#isOver; turn++) {
      const name = `${lane} turn ${turn}`
      const play = random.oneOf(['read', 'read', 'pipeline', 'upload'] as const)
      const failure = await this.#play(play, name, random, agent).catch((error: Error) => `${error.message}`)
      if (failure !== undefined && !this.#mayBeLost) this.#findings.note(`${play} of ${name}: ${failure}`)
      this.responses++
      await sleep(random.below(50))
    }
    agent.destroy()
  }

  /** Returns what was wrong. */
  #play(play: 'read' | 'pipeline' | 'upload', name: string, random: Random, agent: Agent): Promise<string | undefined> {
    if (play === 'read') return this.#read(name, random, agent)
    return play === 'pipeline' ? this.#pipeline(name, random) : this.#upload(name, random, agent)
  }

  /** Reads with pauses, and leaves some of it. */
  async #read(name: string, random: Random, agent: Agent): Promise<string | undefined> {
    const events = random.below(random.oneOf(LONGEST))
    const headers = { 'X-Kind': random.oneOf(KINDS), 'X-Client': name, 'X-Events': String(events) }
    const leavesAfter = random.below(4) === 0 ? random.below(1 + events) * 1024 : Number.POSITIVE_INFINITY
    const req = request({
      host: '127.0.0.1',
      port: this.#port,
      path: '/free/pattern',
      headers,
      agent: random.below(2) === 0 ? agent : false,
    })
    const chunks: Buffer[] = []
    let bytes = 0
    const read = async (res: IncomingMessage): Promise<boolean> => {
      for await (const chunk of res) {
        chunks.push(chunk as Buffer)
        bytes += (chunk as Buffer).length
        if (bytes > leavesAfter) return false
        if (random.below(10) === 0) await sleep(random.below(40))
      }
      return res.complete
    }
    const isWhole = await new Promise<boolean>((resolve, reject) => {
      req.on('error', reject)
      req.on('response', (res) => void read(res).then(resolve, reject))
      req.end()
    })
    if (!isWhole) req.destroy()
    const expected = patternOf(name, events)
    const text = Buffer.concat(chunks).toString('latin1')
    if (isWhole ? text === expected : expected.startsWith(text) && bytes > leavesAfter) return undefined
    return `${text.length} bytes of ${expected.length}, ${expected.startsWith(text) ? 'which are the first' : 'which are not its own'}`
  }

  /** Many requests at once, in pieces of any size; their responses come in order. */
  async #pipeline(name: string, random: Random): Promise<string | undefined> {
    const count = 1 + random.below(20)
    const sizes = Array.from({ length: count }, () => random.below(random.oneOf([1, 3, 70])))
    const nameOf = (i: number): string => `${name} number ${i}`
    const requests = sizes.map(
      (events, i) => `GET /free/pattern HTTP/1.1\r\nHost: edge\r\nX-Kind: counted\r\nX-Client: ${nameOf(i)}\r\nX-Events: ${events}\r\n\r\n`,
    )
    const text = requests.join('')
    const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true })
    let received = ''
    const closed = new Promise<void>((resolve) => {
      socket.on('error', () => {}) // its 'close' follows
      socket.on('close', () => resolve())
    })
    const all = new Promise<string | undefined>((resolve) => {
      let [seen, at] = [0, 0]
      socket.on('data', (chunk) => {
        received += chunk.toString('latin1')
        for (let end = received.indexOf('\r\n\r\n', at); end >= 0; end = received.indexOf('\r\n\r\n', at)) {
          const size = sizes[seen]! * 1024
          if (received.length < end + 4 + size) return
          const body = received.slice(end + 4, end + 4 + size)
          if (body !== patternOf(nameOf(seen), sizes[seen]!))
            return resolve(`response ${seen} is not its own: ${received.slice(at, end + 100)}`)
          at = end + 4 + size
          if (++seen === count) return resolve(undefined)
        }
      })
    })
    for (let from = 0; from < text.length; ) {
      const to = from + 1 + random.below(random.oneOf([20, 5000]))
      socket.write(text.slice(from, to))
      if (random.below(5) === 0) await sleep(random.below(5))
      from = to
    }
    const failure = await Promise.race([all, closed.then(() => 'the connection was closed')])
    socket.destroy()
    await closed
    return failure
  }

  async #upload(name: string, random: Random, agent: Agent): Promise<string | undefined> {
    const body = Buffer.from(patternOf(name, random.below(random.oneOf(LONGEST))))
    const size = random.below(2) === 0 ? { 'Content-Length': body.length } : { 'Transfer-Encoding': 'chunked' }
    const req = request({ host: '127.0.0.1', port: this.#port, method: 'POST', path: '/free/digest', headers: size, agent })
    const answer = new Promise<string>((resolve) => {
      req.on('error', ({ message }) => resolve(message))
      req.on('response', (res) => {
        let text = ''
        res.on('data', (chunk: Buffer) => {
          text += chunk.toString()
        })
        res.on('error', ({ message }) => resolve(message))
        res.on('end', () => resolve(text))
      })
    })
    for (let from = 0; from < body.length; ) {
      const to = from + 1 + random.below(random.oneOf([100, 60_000]))
      req.write(body.subarray(from, to))
      if (random.below(10) === 0) await sleep(1)
      from = to
    }
    req.end()
    const digest = createHash('sha256').update(body).digest('hex')
    const got = await answer
    return got === digest ? undefined : `${body.length} bytes of ${digest} arrived as ${got}`
  }
}
