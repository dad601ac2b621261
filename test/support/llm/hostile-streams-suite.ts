import fc from 'fast-check'
import { expect, test } from 'vitest'
import { StreamFilter } from '../../../src/llm/stream-filter.ts'
import { compileBundle } from '../../../src/policy/compile.ts'
import { parseBundle } from '../../../src/policy/parse.ts'
import type { PlanRule } from '../../../src/policy/plan.ts'
import { bundle, llmRule, policy } from '../bundles/bundles.ts'
import { PROXY_WIRES } from '../run/proxy-wire.ts'
import { CHAT, HELLO, HELLO_TOKENS, llmProxy } from './llm-proxy.ts'
import { scriptedLlm } from './scripted-llm.ts'
import { anyShapedStream } from './shaped-streams.ts'

const AT_ONCE = 8
const BUDGET = { tokens_per_minute: 1e9, max_completion_tokens: 20 }
const STREAMING = { buffer_tokens: 1, include_partial_usage: true }

const anyCuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 })
const anyStreams = fc.array(fc.tuple(anyShapedStream(), anyCuts), { minLength: AT_ONCE, maxLength: AT_ONCE })

/** Streams that no provider would send, some at once, through the running proxy: clients get what a filter makes of each in one piece. */
export function hostileStreamsSuite(numRuns: number): void {
  test('hostile streams are the same on both wires, and as a filter leaves them that gets each in one piece', async () => {
    const texts = new Map<string, readonly Buffer[]>()
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      for (const piece of texts.get(JSON.parse(call.body).user)!) if (!call.isAborted) await call.write(piece)
      call.end()
    })
    // A stream may say that it used up any budget, and that is nobody else's.
    const options = { config: BUDGET, streaming: STREAMING, limitKeys: ['header:x-run'] }
    const proxies = await Promise.all(PROXY_WIRES.map((wire) => llmProxy(backend, { ...options, env: { EDGE_PROXY_WIRE: wire } })))
    let runs = 0
    await fc.assert(
      fc.asyncProperty(anyStreams, async (streams) => {
        const names = streams.map(([bytes, cuts]) => {
          const name = `run ${runs++}`
          texts.set(name, piecesOf(bytes, cuts))
          return name
        })
        const expected = streams.map(([bytes]) => [true, filtered(bytes)])
        for (const proxy of proxies) {
          const body = { stream: true, messages: HELLO, max_tokens: 1000 }
          const clients = await Promise.all(names.map((user) => proxy.open(CHAT, { ...body, user }, [['X-Run', user]]).untilClosed()))
          expect(clients.map(({ outcome, bytes }) => [outcome === 'whole', bytes.toString('latin1')])).toEqual(expected)
        }
        texts.clear()
      }),
      { numRuns },
    )
    const [own, node] = await Promise.all(
      proxies.map(async (proxy) => {
        await proxy.untilQuiet()
        const used = await proxy.edge.metric('edge_llm_tokens_used_total{policy="llm",rule="budget"}')
        return { used, settlements: await proxy.settlements() }
      }),
    )
    expect(own!.settlements).toEqual(node!.settlements)
    // Some streams claim to have used as much as a number holds, and sums of such depend on their order.
    expect(own!.used / node!.used).toBeCloseTo(1, 12)
    expect(own!.used).toBeGreaterThan(runs)
  }, 300_000)
}

function piecesOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...cuts.map((share) => Math.round(share * bytes.length)).sort((a, b) => a - b), bytes.length]
  return ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end)).filter(({ length }) => length > 0)
}

function filtered(bytes: Buffer): string {
  const filter = new StreamFilter({ rules: RULES, promptEstimate: HELLO_TOKENS, isActivated: true, stopsAtEnd: true })
  const passed = filter.push(Buffer.from(bytes)).toString('latin1')
  return filter.cut === undefined ? passed + filter.end().toString('latin1') : passed
}

const RULES = compiledRules()

function compiledRules(): PlanRule[] {
  const parsed = parseBundle(
    JSON.stringify(bundle(1, policy('llm', { rules: [llmRule('budget', [], { ...BUDGET, streaming: STREAMING })] }))),
  )
  if (!('bundle' in parsed)) throw new Error(JSON.stringify(parsed))
  return compileBundle(parsed.bundle).policies.flatMap(({ rules }) => rules)
}
