import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { pino } from 'pino'
import { readConfig } from '../../../src/config/config.ts'
import type { CallerReaderOf } from '../../../src/engine/active-plan.ts'
import { Engine } from '../../../src/engine/engine.ts'
import type { ListenerServers } from '../../../src/listen/listener-servers.ts'
import { compileBundle } from '../../../src/policy/compile.ts'
import { parseBundle } from '../../../src/policy/parse.ts'
import { loadServerCode } from '../../../src/runtime/server-code.ts'
import { newServers } from '../../../src/runtime/worker-servers.ts'
import type { CounterStore } from '../../../src/store/counter-store.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { ManualClock } from './manual-clock.ts'
import type { Talk } from './odd-heads.ts'
import { portOf } from './port-of.ts'
import { serverMemory } from './server-memory.ts'

export interface WireOptions {
  readonly hasFastWire: boolean
  readonly store?: CounterStore
  readonly env?: Readonly<Record<string, string>>
  /** Says who sends a request, if the bundle has callers. */
  readonly callerReaderOf?: CallerReaderOf
}

export type ListeningServer = ListenerServers & { readonly port: number }

/** The server alone, in front of an engine that has this bundle, with one wire or both. */
export async function startServer(bundle: object, { hasFastWire, store, env, callerReaderOf }: WireOptions): Promise<ListeningServer> {
  const config = readConfig({ ...env }, {})
  if (!config.ok) throw new Error(config.problems.join('\n'))
  const clock = new ManualClock()
  const counters = store ?? newEmbeddedStore(16 * 1024 * 1024)
  const engine = new Engine({ store: counters, clock, callerReaderOf })
  const parsed = parseBundle(JSON.stringify(bundle), 'json')
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  engine.activate(compileBundle(parsed.bundle))
  const info = { version: '1', hash: 'h', updatedAtS: 0 }
  const server = newServers({ ...config.config, hasFastWire }, await loadServerCode(config.config), {
    engine,
    clock,
    logger: pino({ level: 'silent' }),
    bundle: () => info,
    storeStats: () => counters.stats(),
    ...serverMemory(),
  })
  return Object.assign(server, { port: portOf(await server.listen('main', { port: 0, host: '127.0.0.1' })) })
}

/** Has the talk, ends, and answers all that came back, with the time of day and the content of tokens taken out. */
export function converse(port: number, { plain, plainHeads, odd }: Talk): Promise<string> {
  return new Promise((resolve) => {
    let received = ''
    const socket = connect(port, '127.0.0.1').setNoDelay(true)
    const isWritable = (): boolean => socket.writable
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
    })
    socket.on('error', () => {}) // what was sent to a connection that is closed already
    socket.on('close', () => resolve(received.replaceAll(DATE, 'Date: …').replaceAll(TOKEN, withLength)))
    socket.on('connect', async () => {
      for (const piece of plain) {
        socket.write(piece)
        await turn()
      }
      while (isWritable() && received.split('\r\n\r\n').length <= plainHeads) await turn()
      for (const piece of odd) {
        if (isWritable()) socket.write(piece)
        await turn()
      }
      if (isWritable()) socket.end()
    })
  })
}

const DATE = /Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g

const TOKEN = /(?<=X-Edge-Reservation: )[\w-]+/g

function withLength(token: string): string {
  return `${token.length} characters`
}
