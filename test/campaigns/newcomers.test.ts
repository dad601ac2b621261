import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { bundle } from '../support/bundles/bundles.ts'
import type { Cli } from '../support/service/cli.ts'
import { askedAnew, Flood, type FloodOptions, type Newcomer } from '../support/service/flood.ts'
import { type Environment, scratchDirectory, serving } from '../support/service/running.ts'
import { type Certificate, issued, selfSigned } from '../support/service/self-signed.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { ownPair, QUESTION, tlsEnv } from '../support/tls/tls-edge.ts'

/** No connection ends by itself while a flood stands: newcomers are let in because others are cut for them, or not at all. */
const PATIENT = { EDGE_HEADERS_TIMEOUT_MS: '600000', EDGE_REQUEST_TIMEOUT_MS: '600000', EDGE_KEEPALIVE_MS: '600000' }
/** So few leave 254 slots for each main port and 32 for the admin port. */
const FEW_FILES = 600
/** More than those slots, and more than the places for handshakes. */
const connectionsFor = (files: number | undefined): number => (files === undefined ? 700 : 300)
const TIMES = 3

const LIVEZ = 'GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
const READYZ = LIVEZ.replace('livez', 'readyz')
/** The preface and empty SETTINGS, which a server answers with its own. */
const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])])
/** The type of the frame that answers it. */
const SETTINGS = 4
const isAllowed = (answer: string): boolean => answer.startsWith('HTTP/1.1 200 ')
const isSettings = (answer: string): boolean => answer.charCodeAt(3) === SETTINGS

type Kinds = readonly [port: 'main' | 'grpc' | 'admin', what: FloodOptions['what']][]

const PLAIN: Kinds = [
  ['main', 'nothing'],
  ['main', 'half a head'],
  ['grpc', 'nothing'],
  ['grpc', 'half a preface'],
  ['admin', 'nothing'],
  ['admin', 'half a head'],
  ['admin', 'a body for an open route'],
]
const SECURED: Kinds = [
  ['main', 'nothing'],
  ['main', 'one byte'],
  ['main', 'half a ClientHello'],
  ['main', 'a ClientHello'],
  ['grpc', 'a ClientHello'],
  ['admin', 'nothing'],
  ['admin', 'a ClientHello'],
]
const CROWDED: Kinds = [
  ['main', 'nothing'],
  ['main', 'one byte'],
  ['main', 'a ClientHello'],
  ['admin', 'a ClientHello'],
]
const CERTIFIED: Kinds = [
  ['main', 'nothing'],
  ['main', 'one byte'],
  ['main', 'a ClientHello'],
]

describe.each<[what: string, kinds: Kinds, files: number | undefined]>([
  ['plain ports, and few open files', PLAIN, FEW_FILES],
  ['TLS, and few open files', SECURED, FEW_FILES],
  ['TLS, and places for handshakes are short', CROWDED, undefined],
  ['certificates of clients', CERTIFIED, undefined],
])('%s:', (what, kinds, maxOpenFiles) => {
  const suite = thisSuite()
  const isTls = kinds !== PLAIN
  const secured = isTls ? (kinds === CERTIFIED ? ['main'] : ['main', 'grpc', 'admin']) : []
  let cli: Cli
  let ports: Readonly<Record<Kinds[number][0], number>>
  let pair: Certificate | undefined

  beforeAll(async () => {
    const directory = await scratchDirectory(suite)
    const path = join(directory, 'bundle.json')
    await writeFile(path, JSON.stringify(bundle(1)))
    const env: Record<string, string> = {
      ...PATIENT,
      EDGE_CONFIG_FILE: path,
      EDGE_ADMIN_PORT: '0',
      EDGE_GRPC_PORT: '0',
      EDGE_ADMIN_TOKEN: 't'.repeat(40),
    }
    if (isTls) Object.assign(env, tlsEnv(await ownPair(undefined, suite)), { EDGE_TLS_LISTENERS: secured.join() })
    if (kinds === CERTIFIED) {
      const authority = await selfSigned(directory, 'DNS:authority', 'authority')
      pair = await issued(directory, 'client', authority)
      Object.assign(env, { EDGE_TLS_CLIENT_CA_FILE: authority.path, EDGE_TLS_CLIENT_AUTH: 'require' } satisfies Environment)
    }
    cli = await serving(env, [], suite, maxOpenFiles === undefined ? {} : { maxOpenFiles })
    const portOf = (label: string): number => Number(new RegExp(`${label}\\s+https?://\\S+?:(\\d+)`).exec(cli.stdout)![1])
    ports = { main: portOf('listens'), grpc: portOf('gRPC'), admin: portOf('admin') }
  })

  const cases = kinds.flatMap(([port, sent]) => [1, 100].map((addresses) => [port, sent, addresses] as const))

  test.each(cases)(
    `${what}: beside connections on the %s port that send %s, from %i addresses, newcomers and probes are answered`,
    async (port, sent, addresses) => {
      const flood = await Flood.begin(ports[port], { what: sent, connections: connectionsFor(maxOpenFiles), addresses })
      const newcomer = (name: typeof port, request: Newcomer['request']): Newcomer => ({
        port: ports[name],
        request,
        isTls: secured.includes(name),
        ...(name === 'grpc' && { protocol: 'h2' }),
        ...(pair !== undefined && { pair: { cert: pair.cert, key: pair.key } }),
      })
      for (let i = 0; i < TIMES; i++) {
        await untilAnswered(newcomer('main', QUESTION), isAllowed)
        await untilAnswered(newcomer('admin', LIVEZ), isAllowed)
        await untilAnswered(newcomer('admin', READYZ), isAllowed)
        await untilAnswered(newcomer('grpc', PREFACE), isSettings)
      }
      flood.end()
    },
  )
})

/** How often a newcomer is turned away at most: with all slots taken in the same second by a hundred addresses, for a second. */
const MAX_ATTEMPTS = 200

/** What is turned away comes again, as probes and clients do. */
async function untilAnswered(newcomer: Newcomer, isExpected: (answer: string) => boolean): Promise<void> {
  let answer = ''
  for (let attempt = 0; attempt < MAX_ATTEMPTS && !isExpected(answer); attempt++) answer = await askedAnew(newcomer)
  expect(isExpected(answer), answer).toBe(true)
}
