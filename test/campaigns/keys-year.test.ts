import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { keyIdOf } from '../../src/callers/keys/issued-key.ts'
import { isVerified } from '../../src/request/caller.ts'
import { forgetInRedis } from '../support/keys/forgotten-keys.ts'
import { KeyInstance, type KeyInstanceOptions } from '../support/keys/key-instance.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { newFolder } from '../support/state/state.ts'
import { until } from '../support/until.ts'

const DAY_MS = 86_400_000
const DAYS = 365
const KEPT_DAYS = 30
const BY = { actor: 'ada', reason: 'a test' }
const PREFIX = 'edge:'

/** A key of the file in Git, which keeps the lines of all keys for ever. */
interface Line {
  readonly id: string
  readonly digest: string
  readonly text: string
  endMs: number | undefined
  revokedDay: number | undefined
}

test('no revoked key works again within a year of changes, nightly imports, restarts and cuts, with a file', async () => {
  const year = new Year({ path: join(await newFolder(), 'keys') })
  await year.live()
  expect(year.counts).toMatchObject({ cuts: expect.toSatisfy((n) => n > 5), refusedLines: expect.toSatisfy((n) => n > 1000) })
})

describeWithRedis('a fleet', () => {
  test('lets no revoked key work again within a year of changes, nightly imports, restarts, cuts and losses of Redis', async () => {
    const redis = await runningRedis()
    const year = new Year({ path: join(await newFolder(), 'keys'), redis: redis.url, prefix: PREFIX }, redis)
    await year.live()
    expect(year.counts).toMatchObject({ losses: expect.toSatisfy((n) => n > 5), refusedLines: expect.toSatisfy((n) => n > 1000) })
  })
})

/** A year of one instance with a file, or of it and another one that has none and shares a Redis. The same each time. */
class Year {
  readonly counts = { cuts: 0, losses: 0, refusedLines: 0 }
  readonly #options: KeyInstanceOptions
  readonly #redis: RedisServer | undefined
  readonly #lines: Line[] = []
  #instances: KeyInstance[] = []
  #day = 0
  #seed = 1
  readonly #startMs = Date.now()

  constructor(options: KeyInstanceOptions, redis?: RedisServer) {
    this.#options = { ...options, maxKeys: 2000, wallMs: () => this.#nowMs }
    this.#redis = redis
  }

  async live(): Promise<void> {
    this.#instances = [await KeyInstance.start(this.#options)]
    if (this.#redis !== undefined) this.#instances.push(await KeyInstance.start({ ...this.#options, path: undefined }))
    for (; this.#day < DAYS; this.#day++) {
      for (let i = this.#random(4); i > 0; i--) await this.#operate()
      await this.#forget()
      await this.#trouble()
      await this.#import()
      await this.#settle()
      this.#check()
    }
    await Promise.all(this.#instances.map((each) => each.stop()))
  }

  get #nowMs(): number {
    return this.#startMs + this.#day * DAY_MS
  }

  #random(below: number): number {
    this.#seed = (this.#seed * 48_271) % 2_147_483_647
    return this.#seed % below
  }

  get #anyInstance(): KeyInstance {
    return this.#instances[this.#random(this.#instances.length)]!
  }

  /** An operator issues, changes or revokes a key. */
  async #operate(): Promise<void> {
    const { control } = this.#anyInstance
    const line = this.#lines[this.#random(Math.max(1, this.#lines.length))]
    const endMs = this.#random(3) === 0 ? this.#nowMs + (1 + this.#random(60)) * DAY_MS : undefined
    const end = endMs === undefined ? 'never' : { atMs: endMs }
    const what = this.#random(3)
    if (what === 0 || line === undefined) {
      const { key, text } = await control.create({ labels: { team: 'ads' }, end, digest: undefined, ...BY })
      const digest = key.digest.toString('base64url')
      this.#lines.push({ id: key.id, digest, text: text!, endMs: key.expiresMs, revokedDay: undefined })
    } else if (line.revokedDay !== undefined || this.#isOver(line)) {
      // Its line is edited.
      line.endMs = endMs
    } else if (what === 1) {
      await this.#settle()
      await control.revoke({ id: line.id, ...BY })
      line.revokedDay = this.#day
    } else {
      await this.#settle()
      line.endMs = (await control.change({ id: line.id, labels: { team: 'maps' }, end, ...BY })).expiresMs
    }
  }

  #isOver({ endMs }: Line): boolean {
    return endMs !== undefined && endMs <= this.#nowMs
  }

  /** Redis has a clock of its own, so what it would forget today is made to be over. */
  async #forget(): Promise<void> {
    if (this.#redis === undefined) return
    for (const { id, revokedDay } of this.#lines) {
      if (revokedDay !== this.#day - KEPT_DAYS) continue
      await this.#settle()
      await forgetInRedis(this.#redis, PREFIX, id, this.#instances)
    }
  }

  async #trouble(): Promise<void> {
    const what = this.#random(8)
    if (what > 2) return
    await this.#settle()
    if (what === 0 && this.#redis !== undefined) {
      this.counts.losses++
      await this.#redis.command('FLUSHALL')
      return
    }
    const [first, ...others] = this.#instances
    await first!.stop()
    const isCut = what === 1 && this.#redis === undefined && (await this.#cut())
    const back = await KeyInstance.start(this.#options)
    this.#instances = [back, ...others]
    expect(back.lost !== undefined).toBe(isCut)
    if (!isCut) return
    // The operator compares, and does again what was lost.
    for (const { id, revokedDay } of this.#lines)
      if (revokedDay !== undefined && back.table.get(id)?.isRevoked === false) await back.control.revoke({ id, ...BY })
    await back.control.acknowledgeLoss(BY)
  }

  /** Cuts the file somewhere in its last lines. Returns whether anything was cut. */
  async #cut(): Promise<boolean> {
    const path = this.#options.path!
    const bytes = await readFile(path)
    const cut = Math.min(bytes.length, this.#random(900))
    await writeFile(path, bytes.subarray(0, bytes.length - cut))
    if (cut > 0) this.counts.cuts++
    return cut > 0
  }

  /** Every night, the file is imported from Git. */
  async #import(): Promise<void> {
    await this.#settle()
    const { control, table } = this.#anyInstance
    for (const line of this.#lines) {
      if (this.#isOver(line)) continue
      const key = table.get(line.id)
      if (key?.isRevoked === false) {
        if (key.expiresMs !== line.endMs)
          await control.change({ id: line.id, labels: undefined, end: line.endMs === undefined ? 'never' : { atMs: line.endMs }, ...BY })
        continue
      }
      const order = {
        labels: { team: 'ads' },
        end: line.endMs === undefined ? 'never' : { atMs: line.endMs },
        digest: line.digest,
        ...BY,
      } as const
      if (line.revokedDay === undefined) expect((await control.create(order)).key.id).toBe(keyIdOf(Buffer.from(line.digest, 'base64url')))
      else {
        await expect(control.create(order)).rejects.toMatchObject({ code: 'key_revoked' })
        this.counts.refusedLines++
      }
    }
  }

  async #settle(): Promise<void> {
    if (this.#instances.length < 2) return
    const states = (): string[] => this.#instances.map((each) => `${each.lines().join()} ${each.table.revoked.sum}`)
    await until(() => states().every((each, _, [first]) => each === first))
    const revoked = async () => await this.#redis!.command('ZCARD', `${PREFIX}{keys}:revoked`)
    await until(async () => (await revoked()) === this.#instances[0]!.table.revoked.size)
  }

  #check(): void {
    for (const { worker } of this.#instances) {
      for (const line of this.#lines) {
        const isKnown = isVerified(worker.find(line.text, () => undefined, this.#day * 60_000, this.#nowMs))
        expect([line.id, isKnown]).toEqual([line.id, line.revokedDay === undefined && !this.#isOver(line)])
      }
    }
  }
}
