import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { keyIdOf } from '../../src/callers/keys/issued-key.ts'
import { isVerified } from '../../src/request/caller.ts'
import { forgetInRedis } from '../support/keys/forgotten-keys.ts'
import { KeyInstance, type KeyInstanceOptions } from '../support/keys/key-instance.ts'
import { redisOfSuite } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { sized } from '../support/run/property-runs.ts'
import { stallDisk } from '../support/stalled-disk.ts'
import { newFolder } from '../support/state/state.ts'
import { until } from '../support/until.ts'

const BY = { actor: 'ada', reason: 'a test' }

const step = fc.record({
  what: fc.constantFrom('create', 'create', 'change', 'revoke', 'together', 'restart', 'lose'),
  instance: fc.nat(1),
  key: fc.nat(9),
  team: fc.constantFrom('search', 'ads', 'maps'),
  expires: fc.boolean(),
})
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

interface Expected {
  readonly text: string
  team: string
  isRevoked: boolean
}

test('any keys that are issued, changed and revoked are there after any restarts, on a disk', async () => {
  const folder = await newFolder()
  let count = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      count++
      await play(
        steps,
        1,
        () => ({ path: join(folder, `keys-${count}`) }),
        async () => {},
      )
    }),
    { numRuns: sized(5, 450) },
  )
})

describeWithRedis('a fleet', () => {
  const redis = redisOfSuite()

  test('knows any keys that any instance has issued, changed and revoked, after any restarts and losses of Redis', async () => {
    const folder = await newFolder()
    let count = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 15 }), async (steps) => {
        count++
        const options = (i: number): KeyInstanceOptions => ({
          redis: redis().url,
          prefix: `edge${count}:`,
          path: join(folder, `keys-${count}-${i}`),
        })
        await play(steps, 2, options, async () => void (await redis().command('FLUSHALL')))
      }),
      { numRuns: sized(3, 300) },
    )
  })

  test('copies many keys to an instance that starts, in slices', async () => {
    const one = await KeyInstance.start({ redis: redis().url, maxKeys: 5000 })
    await Promise.all(
      Array.from({ length: sized(1000, 3000) }, (_, i) =>
        one.control.create({ labels: { user: `u${i}` }, end: 'never', digest: undefined, ...BY }),
      ),
    )
    const late = await KeyInstance.start({ redis: redis().url, maxKeys: 5000 })
    expect(late.lines()).toEqual(one.lines())
    await Promise.all([one.stop(), late.stop()])
  })

  test('forgets keys that ended a month ago everywhere, and an instance that was away for longer does not bring them back', async () => {
    const path = join(await newFolder(), 'keys')
    const away = await KeyInstance.start({ redis: redis().url, path, wallMs: () => Date.now() - 40 * 86_400_000 })
    const { key, text } = await away.control.create({ labels: { team: 'ads' }, end: 'never', digest: undefined, ...BY })
    await away.stop()
    await redis().command('FLUSHALL')
    const one = await KeyInstance.start({ redis: redis().url })
    await one.control.create({ labels: { team: 'search' }, end: 'never', digest: undefined, ...BY })
    // The one that was away has a file that was complete 40 days ago, and a key that Redis does not know.
    const back = await KeyInstance.start({ redis: redis().url, path })
    await until(() => back.lines().join() === one.lines().join())
    expect(back.table.get(key.id)).toBeUndefined()
    expect(back.worker.find(text!, () => undefined, 0, Date.now())).toEqual({ problem: 'unknown_key' })
    await Promise.all([one.stop(), back.stop()])
  })

  test('remembers for good which keys were revoked, also after Redis has forgotten them and lost everything', async () => {
    const prefix = 'edge-good:'
    const path = join(await newFolder(), 'keys')
    const one = await KeyInstance.start({ redis: redis().url, prefix })
    const other = await KeyInstance.start({ redis: redis().url, prefix, path })
    const { key } = await one.control.create({ labels: { team: 'ads' }, end: 'never', digest: undefined, ...BY })
    const digest = key.digest.toString('base64url')
    const again = (instance: KeyInstance) => instance.control.create({ labels: { team: 'ads' }, end: 'never', digest, ...BY })
    await one.control.revoke({ id: key.id, ...BY })
    await forgetInRedis(redis(), prefix, key.id, [one, other])
    const late = await KeyInstance.start({ redis: redis().url, prefix })
    for (const instance of [one, other, late]) {
      await until(() => !instance.table.has(key.id))
      await expect(again(instance)).rejects.toMatchObject({ code: 'key_revoked' })
    }
    // Redis itself refuses it to an instance that does not know.
    await redis().command('FLUSHALL')
    await until(async () => (await redis().command('ZCARD', `${prefix}{keys}:revoked`)) === 1)
    await Promise.all([one.stop(), other.stop(), late.stop()])
    await redis().command('FLUSHALL')
    // The file knows it, and an instance that has neither a file nor heard of it cannot bring it back for long.
    const ignorant = await KeyInstance.start({ redis: redis().url, prefix })
    const { text } = await ignorant.control.create({ labels: { team: 'ads' }, end: 'never', digest: undefined, ...BY })
    await again(ignorant)
    const back = await KeyInstance.start({ redis: redis().url, prefix, path })
    await until(() => ignorant.table.get(key.id)?.isRevoked !== false)
    await expect(again(ignorant)).rejects.toMatchObject({ code: 'key_revoked' })
    await until(() => back.lines().join() === ignorant.lines().join())
    expect(isVerified(back.worker.find(text!, () => undefined, 0, Date.now()))).toBe(true)
    await Promise.all([ignorant.stop(), back.stop()])
  })

  test('puts back the revoked keys that somebody has removed from Redis, or all of them', async () => {
    const prefix = 'edge-removed:'
    const [set, facts] = [`${prefix}{keys}:revoked`, `${prefix}{keys}:facts`]
    const one = await KeyInstance.start({ redis: redis().url, prefix })
    const ids: string[] = []
    for (let i = 0; i < 3; i++) {
      const { key } = await one.control.create({ labels: { team: 'ads' }, end: 'never', digest: undefined, ...BY })
      await one.control.revoke({ id: key.id, ...BY })
      ids.push(key.id)
    }
    const known = async (): Promise<unknown[]> => [
      ((await redis().command('ZRANGE', set, '0', '-1')) as string[]).toSorted(),
      await redis().command('HMGET', facts, 'revoked', 'revoked_sum'),
    ]
    const before = await known()
    expect(before[0]).toEqual(ids.toSorted())
    for (const removal of [
      ['ZREM', set, ids[0]!, ids[2]!],
      ['DEL', set],
    ]) {
      await redis().command(...removal)
      await until(async () => JSON.stringify(await known()) === JSON.stringify(before))
    }
    await one.stop()
  })

  test('brings back a confirmed change that a failover to a stale replica has lost', async () => {
    const names = ['facts', 'entries', 'order', 'ends'].map((name) => `edge:{keys}:${name}`)
    const one = await KeyInstance.start({ redis: redis().url })
    const created = await Promise.all(
      Array.from({ length: 20 }, () =>
        one.control.create({ labels: { team: 'ads' }, end: { inMs: 86_400_000 }, digest: undefined, ...BY }),
      ),
    )
    const [leaked, other] = created
    for (const name of names) await redis().command('COPY', name, `${name}:stale`, 'REPLACE')
    await one.control.revoke({ id: leaked!.key.id, ...BY })
    await one.control.change({ id: other!.key.id, labels: { team: 'maps' }, end: undefined, ...BY })
    for (const name of names) await redis().command('COPY', `${name}:stale`, name, 'REPLACE')
    const late = await KeyInstance.start({ redis: redis().url })
    await until(() => late.lines().join() === one.lines().join())
    expect(late.worker.find(leaked!.text!, () => undefined, 0, Date.now())).toEqual({ problem: 'revoked' })
    await Promise.all([one.stop(), late.stop()])
  })

  test('goes on while the disk of an instance hangs', async () => {
    const folder = await newFolder()
    const one = await KeyInstance.start({ redis: redis().url })
    const other = await KeyInstance.start({ redis: redis().url, path: join(folder, 'keys') })
    const { key } = await one.control.create({ labels: { team: 'ads' }, end: 'never', digest: undefined, ...BY })
    await until(() => other.table.has(key.id))
    const resume = stallDisk(folder)
    await one.control.change({ id: key.id, labels: { team: 'maps' }, end: undefined, ...BY })
    await until(() => other.table.get(key.id)!.labels['team'] === 'maps')
    await one.control.revoke({ id: key.id, ...BY })
    await until(() => other.table.get(key.id)!.isRevoked)
    await resume()
    await Promise.all([one.stop(), other.stop()])
  })

  test('does not let two instances change a key at the same time', async () => {
    const [one, other] = await Promise.all([KeyInstance.start({ redis: redis().url }), KeyInstance.start({ redis: redis().url })])
    const { key } = await one.control.create({ labels: { team: 'ads' }, end: 'never', digest: undefined, ...BY })
    await until(() => other.table.has(key.id))
    const change = (instance: KeyInstance, team: string) => instance.control.change({ id: key.id, labels: { team }, end: undefined, ...BY })
    const outcomes = await Promise.allSettled([change(one, 'a'), change(other, 'b')])
    const refused = outcomes.filter(({ status }) => status === 'rejected')
    if (refused.length > 0) expect((refused[0] as PromiseRejectedResult).reason.code).toBe('key_exists')
    await until(() => one.lines().join() === other.lines().join())
    await Promise.all([one.stop(), other.stop()])
  })
})

describe('without a file and without Redis', () => {
  test('keys end with the process', async () => {
    const { control } = await KeyInstance.start({})
    expect(control.isDurable).toBe(false)
  })
})

/** Does the steps, and compares what every instance knows in the end with a model. `lose` makes Redis forget everything. */
async function play(
  steps: readonly Step[],
  count: number,
  options: (i: number) => KeyInstanceOptions,
  lose: () => Promise<void>,
): Promise<void> {
  const instances = await Promise.all(Array.from({ length: count }, (_, i) => KeyInstance.start(options(i))))
  const model = new Map<string, Expected>()
  const settled = async (): Promise<void> => {
    const expected = Array.from(model, ([id, { team, isRevoked }]) => JSON.stringify([id, { team }, isRevoked])).sort()
    const moments = ({ table }: KeyInstance) =>
      Array.from(table.keys(), ({ id, momentMs }) => `${id} ${momentMs}`)
        .sort()
        .join()
    const known = ({ table }: KeyInstance) =>
      Array.from(table.keys(), ({ id, labels, isRevoked }) => JSON.stringify([id, labels, isRevoked]))
        .sort()
        .join()
    await until(() => instances.every((each) => known(each) === expected.join() && moments(each) === moments(instances[0]!)))
  }
  for (const { what, instance: index, key, team } of steps) {
    const at = index % count
    const { control } = instances[at]!
    const id = [...model.keys()][key]
    const create = async (): Promise<void> => {
      const created = await control.create({ labels: { team }, end: 'never', digest: undefined, ...BY })
      expect(created.key.id).toBe(keyIdOf(created.key.digest))
      model.set(created.key.id, { text: created.text!, team, isRevoked: false })
    }
    if (what === 'create') await create()
    else if (what === 'together') await Promise.all([create(), create(), create()])
    else if (what === 'lose') {
      await settled()
      await lose()
    } else if (what === 'restart') {
      await settled()
      await instances[at]!.stop()
      instances[at] = await KeyInstance.start(options(at))
    } else if (id !== undefined) {
      await settled()
      const expected = model.get(id)!
      if (what === 'revoke') {
        await control.revoke({ id, ...BY })
        expected.isRevoked = true
      } else if (expected.isRevoked)
        await expect(control.change({ id, labels: { team }, end: undefined, ...BY })).rejects.toThrow('is revoked')
      else {
        await control.change({ id, labels: { team }, end: undefined, ...BY })
        expected.team = team
      }
    }
  }
  await settled()
  for (const { worker } of instances) {
    for (const [id, { text, team, isRevoked }] of model) {
      const found = worker.find(text, () => undefined, 0, Date.now())
      expect(isVerified(found) ? [found.id, found.labels.get('team')] : found).toEqual(
        isRevoked ? { problem: 'revoked' } : [`key:${id}`, team],
      )
    }
  }
  for (const instance of instances) await instance.stop()
}
