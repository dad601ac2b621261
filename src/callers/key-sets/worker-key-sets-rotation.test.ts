import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FollowedKeySets, KeySetServer, keySetText } from '../../../test/support/callers/followed-key-sets.ts'
import { runs } from '../../../test/support/run/property-runs.ts'
import { until } from '../../../test/support/until.ts'

const WORKERS = 2

type Step =
  /** The issuer publishes a new key and signs with it from now on. */
  | { readonly do: 'rotate' }
  /** Its server takes its time, or responds to all that wait. */
  | { readonly do: 'hold' | 'release' }
  | { readonly do: 'fail' | 'recover' }
  | { readonly do: 'pass'; readonly ms: number }
  /** A token that the issuer has signed, or one of a stranger. */
  | { readonly do: 'token' | 'stranger'; readonly worker: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constantFrom('rotate', 'hold', 'release', 'fail', 'recover') }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(1, 500, 1999, 2000, 5000, 29_999, 30_000, 600_000) }),
  fc.record({ do: fc.constantFrom('token', 'token', 'stranger'), worker: fc.nat(WORKERS - 1) }),
)

test('however keys rotate, servers fail and strangers guess, no token of its issuer is called unknown, and no stranger is known', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const issuer = await Issuer.start()
      for (const each of steps) await issuer.take(each)
      await issuer.end()
      expect(issuer.wrong).toEqual([])
    }),
    { numRuns: runs(40) },
  )
})

/** An issuer that says what it has published when it is asked, however late its answer comes. */
class Issuer {
  readonly wrong: string[] = []
  readonly #followed: FollowedKeySets
  readonly #workers: ReturnType<FollowedKeySets['worker']>[]
  readonly #kids = ['key-0']
  readonly #answers: Promise<void>[] = []
  #held: (() => void)[] | undefined
  #isFailing = false
  #strangers = 0

  private constructor(followed: FollowedKeySets, server: KeySetServer) {
    this.#followed = followed
    server.respond = (_req, res) => this.#respond(res)
    const entry = { name: 'okta', jwks_url: server.url }
    this.#workers = Array.from({ length: WORKERS }, () => followed.worker(entry))
  }

  static async start(): Promise<Issuer> {
    const [followed, server] = [new FollowedKeySets(), await KeySetServer.start()]
    const self = new Issuer(followed, server)
    await followed.use({ name: 'okta', jwks_url: server.url })
    return self
  }

  async take(step: Step): Promise<void> {
    // Everything happens at a time of its own, as it does in the world.
    this.#followed.advance(1)
    if (step.do === 'rotate') this.#kids.unshift(`key-${this.#kids.length}`)
    if (step.do === 'hold') this.#held ??= []
    if (step.do === 'release') this.#release()
    if (step.do === 'fail' || step.do === 'recover') this.#isFailing = step.do === 'fail'
    if (step.do === 'pass') this.#followed.advance(step.ms)
    if (step.do === 'token') this.#ask(step.worker, this.#kids[0]!, ['keys_unavailable'])
    if (step.do === 'stranger') this.#ask(step.worker, `stranger-${this.#strangers++}`, ['keys_unavailable', 'unknown_key'])
    await this.#followed.delivered()
    // A fetch that this has begun is often at the server by then, and sometimes not.
    await sleep(1)
  }

  /** Resolves when everybody has an answer. */
  async end(): Promise<void> {
    this.#release()
    let isOver = false
    void Promise.all(this.#answers).then(() => {
      isOver = true
    })
    await this.#followed.delivered()
    this.#followed.advance(2000)
    await until(() => isOver)
  }

  #ask(number: number, kid: string, problems: readonly string[]): void {
    const worker = this.#workers[number]!
    if (worker.of('okta')?.has(kid)) {
      if (kid.startsWith('stranger')) this.wrong.push(`${kid} is known`)
      return
    }
    const note = (problem: string | undefined): void => {
      if (problem === undefined ? !worker.of('okta')!.has(kid) : !problems.includes(problem)) this.wrong.push(`${kid}: ${problem}`)
    }
    this.#answers.push(Promise.resolve(worker.wait('okta', kid)).then(note))
  }

  #respond(res: ServerResponse): void {
    const [status, text] = this.#isFailing ? [500, ''] : [200, keySetText(...this.#kids)]
    const send = (): void => void res.writeHead(status).end(text)
    if (this.#held === undefined) send()
    else this.#held.push(send)
  }

  #release(): void {
    for (const send of this.#held ?? []) send()
    this.#held = undefined
  }
}
