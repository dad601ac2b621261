import { describe, expect, test } from 'vitest'
import { readHere } from '../../../src/bundle/bundle-intake.ts'
import type { ReadBundle } from '../../../src/bundle/bundle-reader.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const RULES = { rules: [bucketRule('r', ['header:x-k'], 10, 5)] }
const SECRET = matching({ bearer: ['hunter2', 'hunt*', '*'], 'header:x-plan': 'gold' }, bucketRule('vip', ['bearer'], 9))

async function get(edge: Edge, path: string, status = 200) {
  const response = await askAdmin(edge.adminPort, 'GET', path, { actor: 'ada' })
  expect([path, response.status]).toEqual([path, status])
  return response.json
}

/** A service with bundle 1, in which nothing is, and bundle 2. */
async function withTwo(second: object = bundle(2, policy('p', RULES))): Promise<Edge> {
  const clock = new ManualClock()
  const edge = await running({ bundle: bundle(1), env: ADMIN_ENV, clock })
  clock.advance(5000)
  await edge.publish(second)
  return edge
}

describe('GET bundles', () => {
  test('lists those that were active, the newest first, with what each changed', async () => {
    const edge = await withTwo()
    const { bundles } = await get(edge, 'bundles')
    const counts = { added: 0, removed: 0, changed: 0, unchanged: 0 }
    expect(bundles).toMatchObject([
      {
        version: '2',
        policies: 1,
        format: 'json',
        bytes: JSON.stringify(bundle(2, policy('p', RULES))).length,
        signed: false,
        warnings: 1,
        warning_texts: [expect.stringMatching(/^policies\[0\]\.spec\.rules\[0\].* \(line 1, column \d+\)$/)],
        has_text: true,
        changes: { policies: { ...counts, added: 1 }, prices: counts, reordered: false },
      },
      { version: '1', policies: 0, changes: null },
    ])
    expect(bundles[0].hash).toBe((await get(edge, 'bundle')).bundle.hash)
    expect(Date.parse(bundles[0].applied_at) - Date.parse(bundles[1].applied_at)).toBe(5000)
  })

  test('is empty before the first one, and leaves out what was refused', async () => {
    const edge = await running({ env: ADMIN_ENV })
    expect(await get(edge, 'bundles')).toEqual({ bundles: [] })
    const { error } = await get(edge, 'bundles/1', 404)
    expect(error).toMatchObject({ code: 'unknown_bundle', message: 'there is no bundle 1 among the last ten: no bundle was active yet' })
  })

  test('needs the token, and takes no parameters', async () => {
    const edge = await withTwo()
    for (const path of ['bundles', 'bundles/1', 'bundles/1/changes']) {
      expect((await askAdmin(edge.adminPort, 'GET', path, { token: undefined })).status).toBe(401)
      expect((await askAdmin(edge.adminPort, 'GET', `${path}?x=1`)).status).toBe(400)
      const { status, headers } = await askAdmin(edge.adminPort, 'DELETE', path)
      expect([status, headers['allow']]).toEqual([405, 'GET'])
    }
  })
})

describe('GET bundles/VERSION', () => {
  test('has the text as it came', async () => {
    const edge = await withTwo()
    const text = `\n {"bundle_version":\t"3", "metadata": {"ä": "\\u00e4 \u{1f600}"}, "policies": []}\r\n`
    await edge.publish(text)
    expect(await get(edge, 'bundles/3')).toMatchObject({ version: '3', hidden: 0, text })
    expect(await get(edge, 'bundles/003')).toMatchObject({ version: '3' })
    expect(await get(edge, 'bundles/1')).toMatchObject({ version: '1', text: JSON.stringify(bundle(1)) })
  })

  test('a text of many pieces is whole', async () => {
    const noise = '\u{1f600}"\\\n'.repeat(40_000)
    const edge = await withTwo({ ...bundle(2), metadata: { noise } })
    const { text } = await get(edge, 'bundles/2')
    expect(JSON.parse(text).metadata.noise === noise).toBe(true)
  })

  test('has credentials as the digests that policies show, unless they are asked for in clear, which is logged', async () => {
    const edge = await withTwo(bundle(2, policy('p', { rules: [SECRET] })))
    const shown = await get(edge, 'bundles/2')
    expect(JSON.stringify(shown)).not.toContain('hunt')
    expect(shown.hidden).toBe(3)
    const [{ rules }] = (await get(edge, 'policies')).policies
    expect(JSON.parse(shown.text).policies[0].spec.rules[0].match).toEqual(rules[0].match)
    expect(edge.logged('bundle_text_read')).toEqual([])
    const clear = await get(edge, 'bundles/2?credentials=clear')
    expect(clear).toMatchObject({ hidden: 0, text: JSON.stringify(bundle(2, policy('p', { rules: [SECRET] }))) })
    expect(await untilLogged(edge, 'bundle_text_read')).toMatchObject([{ version: '2', actor: 'ada' }])
    await get(edge, 'bundles/1?credentials=clear')
    expect(await untilLogged(edge, 'bundle_text_read')).toHaveLength(1)
    expect(JSON.stringify(edge.log)).not.toContain('hunt')
    expect((await get(edge, 'bundles/2?credentials=all', 400)).error.message).toBe('credentials: expected digests or clear')
  })

  test('of another version is 404, whatever it looks like', async () => {
    const edge = await withTwo()
    expect((await get(edge, 'bundles/9', 404)).error.message).toBe('there is no bundle 9 among the last ten: this instance has 2, 1')
    for (const version of ['x', '-1', '1.0', '1e0', '%31', '9'.repeat(31)])
      expect((await get(edge, `bundles/${version}`, 404)).error.code).toBe('unknown_bundle')
    expect((await get(edge, 'bundles/', 404)).error.code).toBe('not_found')
    expect((await askAdmin(edge.adminPort, 'GET', 'bundles//changes').catch(() => ({ status: 404 }))).status).toBe(404)
  })
})

describe('texts and comparisons take memory one at a time', () => {
  const secret = (version: number) => bundle(version, policy('p', { rules: [SECRET] }))

  /** A service with bundles 1 to `count`, in which every rule matches credentials; its bundles are read when the test lets them be. */
  async function withHeldReads(count: number) {
    const held: (() => void)[] = []
    const reads = { now: 0, most: 0, total: 0, isHeld: false }
    const readBundle: ReadBundle = async (...given) => {
      reads.total++
      reads.most = Math.max(reads.most, ++reads.now)
      if (reads.isHeld) await new Promise<void>((resolve) => held.push(resolve))
      reads.now--
      return readHere(...given)
    }
    const edge = await running({ bundle: secret(1), env: ADMIN_ENV, readBundle })
    for (let version = 2; version <= count; version++) await edge.publish(secret(version))
    Object.assign(reads, { most: 0, total: 0, isHeld: true })
    const release = (): void => {
      reads.isHeld = false
      for (const go of held) go()
    }
    return { edge, reads, release }
  }

  test('equal asks join the one under way, and the second ask reads nothing again', async () => {
    const { edge, reads, release } = await withHeldReads(3)
    const asked = ['2', '2', '3', '2', '3'].map((version) => get(edge, `bundles/${version}`))
    await until(() => reads.now === 1)
    release()
    for (const { hidden } of await Promise.all(asked)) expect(hidden).toBe(3)
    expect(reads).toMatchObject({ most: 1, total: 2 })
    expect(await get(edge, 'bundles/2')).toMatchObject({ version: '2', hidden: 3 })
    expect(reads.total).toBe(2)
  })

  test('a text in clear is not read at all', async () => {
    const { edge, reads } = await withHeldReads(2)
    expect(await get(edge, 'bundles/2?credentials=clear')).toMatchObject({ hidden: 0, text: JSON.stringify(secret(2)) })
    expect(reads.total).toBe(0)
  })

  test('where too many wait, the next one is refused, and later it is not', async () => {
    const { edge, reads, release } = await withHeldReads(10)
    // One is under way and eight wait. What differs between neighbours is known, so these are none.
    const pairs = Array.from({ length: 8 }, (_, i) => [`bundles/1/changes?from=${i + 3}`, `bundles/2/changes?from=${i + 3}`]).flat()
    const refusals: unknown[] = []
    const asked = pairs.map(async (path) => {
      const { status, json } = await askAdmin(edge.adminPort, 'GET', path)
      if (status === 503) refusals.push(json.error)
    })
    await until(() => refusals.length === pairs.length - 9)
    const message = 'too many texts and comparisons of bundles are waiting to be made: ask again in a moment'
    expect(refusals).toEqual(refusals.map(() => expect.objectContaining({ code: 'too_many_readers', message })))
    expect((await get(edge, 'bundles/10', 503)).error).toMatchObject({ code: 'too_many_readers', message })
    release()
    await Promise.all(asked)
    expect(reads.most).toBe(1)
    expect(await get(edge, 'bundles/10')).toMatchObject({ hidden: 3 })
  })
})

describe('GET bundles/VERSION/changes', () => {
  test('says what differs from the one before, or from any other', async () => {
    const edge = await withTwo()
    await edge.publish(bundle(3, policy('p', { rules: [bucketRule('r', ['header:x-k'], 20, 5)] })))
    const { from, to, changes } = await get(edge, 'bundles/3/changes')
    expect([from, to]).toEqual(['2', '3'])
    expect(changes).toEqual((await get(edge, 'bundle')).changes)
    expect((await get(edge, 'bundles/3/changes?from=1')).changes).toMatchObject({ policies: { added: 1 } })
    expect((await get(edge, 'bundles/1/changes?from=3')).changes).toMatchObject({ policies: { removed: 1 } })
    expect((await get(edge, 'bundles/1/changes', 404)).error.message).toBe(
      'bundle 1: the bundle before it is not known: expected from=VERSION',
    )
    expect((await get(edge, 'bundles/1/changes?from=7', 404)).error.message).toContain('there is no bundle 7')
  })

  test('tells nothing of credentials', async () => {
    const edge = await withTwo(bundle(2, policy('p', { rules: [SECRET] })))
    expect(JSON.stringify(await get(edge, 'bundles/2/changes'))).not.toContain('hunt')
  })
})
