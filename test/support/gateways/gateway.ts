import type { Door } from '../../../src/decide/question.ts'
import { readText } from '../../docs/markdown.ts'
import type { SeenRequest } from '../proxy/backend.ts'
import type { Owner } from '../service/running.ts'

/** A gateway with the configuration of `examples/gateways/`, on other ports. */
export interface Gateway {
  readonly name: string
  /** What is not installed, and how it is. Undefined: it can be started. */
  readonly missing: string | undefined
  /** By which it asks. */
  readonly door: Door
  /** The request that a question of this gateway asks about. */
  asked(question: SeenQuestion): AskedAbout
  /** How it names a client on this machine, if not by 127.0.0.1. */
  readonly loopbackAddress?: string
  /** What it cannot do. Its page says so, too. */
  readonly limits: GatewayLimits
  /** For as long as the test runs. Returns its port. */
  start(behind: Neighbours, variant: Variant, owner?: Owner): Promise<number>
}

/** A question as far as tests look at it. */
export type SeenQuestion = Pick<SeenRequest, 'method' | 'url' | 'headers'>

/** What becomes of requests while edge cannot decide: they are refused, or go on to the backend. */
export type Variant = 'fail closed' | 'fail open'

interface Neighbours {
  /** A port, or the path of a unix socket. */
  readonly edge: number | string
  /** A port. */
  readonly backend: number
  /** How long edge may take: the second of the example, or so long that no machine is so busy. */
  readonly edgeMayTake?: 'a second' | 'its time'
}

interface AskedAbout {
  readonly method: string | undefined
  readonly uri: string | undefined
  readonly host: string | undefined
}

interface GatewayLimits {
  /** Responses to allowed requests carry no RateLimit fields. */
  readonly noRateLimitOnAllow?: boolean
  /** Rejects carry no fields of debug sessions. */
  readonly noDebugFields?: boolean
  /** Every question comes on a connection of its own. */
  readonly noKeepAlive?: boolean
  /** Removes issued keys because edge tells it to, and so not while edge is gone. */
  readonly removesKeysWhenTold?: boolean
}

/** A file of the example. */
export function example(path: string): string {
  return readText(`examples/gateways/${path}`)
}

/** Applies the change that the example's marks describe: lines marked `fail closed` go, those marked `fail open` come. */
export function variantOf(text: string, variant: Variant): string {
  if (variant === 'fail closed') return text
  const lines = text.split('\n').map((line) => {
    if (/(#|--) fail closed$/.test(line)) return ''
    return line.replace(/^(\s*)(?:#|--)(.*?) (?:#|--) fail open$/, '$1$2')
  })
  const changed = lines.join('\n')
  if (changed === text) throw new Error('nothing is marked "fail open"')
  return changed
}

/** The example as it is, or with a minute wherever it has a second for edge. */
export function timed(text: string, edgeMayTake: Neighbours['edgeMayTake'] = 'its time'): string {
  if (edgeMayTake === 'a second') return text
  return text
    .replaceAll(/(timeout\S*(?: connect| server)?\s+)1s\b/gi, (_, setting: string) => `${setting}60s`)
    .replace('TIMEOUT_MS = 5000', 'TIMEOUT_MS = 60000')
}

/** Replaces each text, which must be there. */
export function substituted(text: string, substitutes: Readonly<Record<string, string>>): string {
  return Object.entries(substitutes).reduce((result, [from, to]) => {
    if (!result.includes(from)) throw new Error(`the example has changed: ${JSON.stringify(from)} is not there`)
    return result.replaceAll(from, to)
  }, text)
}

/** Where edge is, as a gateway writes it that puts this before the path of a unix socket. */
export function addressOf(edge: number | string, beforePath: string): string {
  return typeof edge === 'number' ? `127.0.0.1:${edge}` : `${beforePath}${edge}`
}

/** Questions whose method, URI and host are in fields. */
export function askedInFields(family: 'original' | 'forwarded'): Gateway['asked'] {
  return ({ headers }) => ({
    method: headers[`x-${family}-method`]?.toString(),
    uri: headers[`x-${family}-uri`]?.toString(),
    host: headers[`x-${family}-host`]?.toString(),
  })
}

/** Whether it asks at the port for gRPC. */
export function isGrpc({ door }: Gateway): boolean {
  return door === 'ext_authz_grpc' || door === 'rate_limit'
}
