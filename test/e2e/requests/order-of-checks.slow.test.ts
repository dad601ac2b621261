import { describe, expect, test } from 'vitest'
import { BundleReplay } from '../../../src/offline/replay/bundle-replay.ts'
import { WholeRequest } from '../../../src/offline/replay/logs/logged-request.ts'
import type { SimulatedRequest } from '../../../src/offline/simulation/simulated-doors.ts'
import type { SimulationOptions } from '../../../src/offline/simulation/simulation.ts'
import type { CallerVerdict } from '../../../src/request/caller.ts'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { explained } from '../../support/admin/explained.ts'
import { blockRule, bundle, llmRule, policy, rateRule } from '../../support/bundles/bundles.ts'
import { CALLERS, GoodCallers } from '../../support/callers/good-callers.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { askRaw, proxying, valuesOf } from '../../support/proxy/proxy.ts'
import { running } from '../../support/service/running.ts'
import { START_MS, simulating, simulationOptions } from '../../support/simulation/simulating.ts'

const MAX_BODY_BYTES = 500
const LIMITS = bundle(
  1,
  policy('hosts', { selector: { hosts: ['a.test'] }, rules: [blockRule('block', { 'header:x-team': 'b' })] }),
  policy('all', {
    rules: [
      rateRule('weighed', [], { tokens_per_second: 1, burst: 9, cost: { header: 'x-cost' } }),
      llmRule('tokens', ['header:x-key'], { tokens_per_minute: 1000 }),
      blockRule('team', { 'caller:team': 'red' }),
    ],
  }),
)
const RULES = { ...LIMITS, callers: { ...CALLERS, mode: 'enforce' } }

/** Something that is wrong with a request, and what the request gets for it where nothing that counts more is wrong. */
interface Fault {
  readonly reason: string
  /** What a replay names in place of the reason: the rule, where one rejects. */
  readonly rule?: string
  readonly spoil: (request: SimulatedRequest) => SimulatedRequest
}

const withFields =
  (...fields: string[]) =>
  (request: SimulatedRequest): SimulatedRequest => ({ ...request, fields: [...request.fields, ...fields] })

/** Sends a token, and says what came of it to those who verify none. */
const withCaller =
  (token: string, caller: CallerVerdict) =>
  (request: SimulatedRequest): SimulatedRequest => {
    const others = pairsOf(request.fields).filter(([name]) => name !== 'Authorization')
    return { ...request, caller, fields: [...others.flat(), 'Authorization', `Bearer ${token}`] }
  }

const NO_HOST: Fault = { reason: 'missing_original_host', spoil: (request) => ({ ...request, host: undefined }) }
const BLOCKED: Fault = { reason: 'blocked', rule: 'block', spoil: withFields('X-Team', 'b') }
const UNKNOWN: Fault = { reason: 'unknown_caller', spoil: withCaller('expired', { problem: 'expired' }) }
const BLOCKED_TEAM: Fault = { reason: 'blocked', rule: 'team', spoil: withCaller('good:eve:red', callerOf('red')) }
const REPEATED: Fault = { reason: 'repeated_descriptor', spoil: withFields('X-Key', 'other') }
const TOO_COSTLY: Fault = { reason: 'token_bucket_exceeded', rule: 'weighed', spoil: withFields('X-Cost', '99') }

/** The fault that counts most comes first. */
const FAULTS: Readonly<Record<SimulationOptions['mode'], readonly Fault[]>> = {
  decision_service: [
    NO_HOST,
    BLOCKED,
    UNKNOWN,
    BLOCKED_TEAM,
    REPEATED,
    TOO_COSTLY,
    { reason: 'tpm_exceeded', rule: 'tokens', spoil: withFields('X-Edge-Max-Tokens', '9999') },
  ],
  reverse_proxy: [
    NO_HOST,
    BLOCKED,
    UNKNOWN,
    BLOCKED_TEAM,
    REPEATED,
    { reason: 'body_too_large', spoil: (request) => ({ ...request, body: request.body!.padEnd(MAX_BODY_BYTES + 1) }) },
    TOO_COSTLY,
    { reason: 'bad_request', spoil: withFields('Content-Encoding', 'gzip') },
    { reason: 'tpm_exceeded', rule: 'tokens', spoil: (request) => ({ ...request, body: '{"max_tokens":9999}' }) },
  ],
}

const GOOD = withCaller(
  'good:ada:blue',
  callerOf('blue'),
)({ method: 'POST', uri: '/', host: 'a.test', fields: ['X-Key', 'a'], body: '{"max_tokens":9}' })

/** What each way to ask says of one request. */
type Ways = Readonly<Record<'served' | 'explained' | 'tested' | 'replayed', (request: SimulatedRequest) => Promise<string>>>

describe('of all that is wrong with a request the same counts first, whether it is served, explained, tested or replayed', () => {
  test('in decision_service', async () => {
    const edge = await running({ bundle: RULES, env: { ...ADMIN_ENV, EDGE_GATEWAY_HINTS: 'on' }, callerReaderOf })
    const served = async ({ method, uri, host, fields }: SimulatedRequest): Promise<string> => {
      const { headers } = await edge.decide({ method, uri, fields: pairsOf(fields), ...(host !== undefined && { host }) })
      return headers['x-edge-reason'] ?? 'all_rules_passed'
    }
    await expectOneOrder('decision_service', { served, ...otherWays('decision_service', edge.adminPort) })
  })

  test('in reverse_proxy', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, {
      bundle: RULES,
      env: { ...ADMIN_ENV, EDGE_MAX_BODY_BYTES: String(MAX_BODY_BYTES) },
      callerReaderOf,
    })
    const served = async (request: SimulatedRequest): Promise<string> =>
      valuesOf(await askRaw(edge.port, bytesOf(request)), 'x-edge-reason')[0] ?? 'all_rules_passed'
    await expectOneOrder('reverse_proxy', { served, ...otherWays('reverse_proxy', edge.adminPort) })
  })
})

/** Asks with all faults, then without the first, and so on until nothing is wrong. */
async function expectOneOrder(mode: SimulationOptions['mode'], ways: Ways): Promise<void> {
  const faults = FAULTS[mode]
  for (let first = 0; first <= faults.length; first++) {
    const left = faults.slice(first)
    // The fault that counts most spoils last: faults of the body replace or enlarge it.
    const request = left.reduceRight((spoilt, { spoil }) => spoil(spoilt), GOOD)
    const { reason, rule } = left[0] ?? { reason: 'all_rules_passed', rule: 'allow' }
    const said = {
      explained: await ways.explained(request),
      tested: await ways.tested(request),
      replayed: await ways.replayed(request),
      served: await ways.served(request),
    }
    expect(said).toEqual({ explained: reason, tested: reason, replayed: rule ?? reason, served: reason })
  }
}

function otherWays(mode: SimulationOptions['mode'], adminPort: number): Omit<Ways, 'served'> {
  const options = simulationOptions({ mode, hasHints: true, maxBodyBytes: MAX_BODY_BYTES })
  const simulation = simulating(RULES, options)
  return {
    explained: async ({ method, uri, host, fields, body }) => {
      const headers: Record<string, string[]> = {}
      for (const [name, value] of pairsOf(fields)) headers[name] = [...(headers[name] ?? []), value]
      const asked = { method, uri, headers, ...(host !== undefined && { host }), ...(mode === 'reverse_proxy' && { body: body! }) }
      return (await explained(adminPort, asked)).reason
    },
    tested: async (request) => (await simulation.decide(request, START_MS)).reason,
    replayed: async ({ method, uri, host = '', fields, body, caller }) => {
      const replay = new BundleReplay({ file: '', plan: simulation.plan }, options, [1, 2], () => '')
      await replay.decide(
        new WholeRequest({ timeMs: START_MS, method, uri, host, peer: undefined, fields, body, caller, size: 0 }),
        START_MS,
      )
      return [...replay.counts.refused.keys()][0] ?? replay.rule?.name ?? replay.action
    },
  }
}

/** Without a host it is HTTP/1.0: later versions need one. */
function bytesOf({ method, uri, host, fields, body }: SimulatedRequest): string {
  const lines = pairsOf(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = host === undefined ? `${method} ${uri} HTTP/1.0\r\n` : `${method} ${uri} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n`
  return `${head}${lines.join('')}Content-Length: ${Buffer.byteLength(body!)}\r\n\r\n${body}`
}

const callerReaderOf = () => new GoodCallers()

function callerOf(team: string): CallerVerdict {
  return { id: 'okta:ada', labels: new Map([['team', team]]), claims: {} }
}

function pairsOf(fields: readonly string[]): [string, string][] {
  return Array.from({ length: fields.length / 2 }, (_, i) => [fields[2 * i]!, fields[2 * i + 1]!])
}
