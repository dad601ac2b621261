import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, matching, policy } from '../../test/support/bundles/bundles.ts'
import { until } from '../../test/support/until.ts'
import { BundleHistory, type BundleText } from './bundle-history.ts'
import { BundleIntake, readHere } from './bundle-intake.ts'

/** A bundle whose text has about so many bytes, of which three quarters are left when it is compressed. */
function large(version: number, bytes: number): string {
  return JSON.stringify({ ...bundle(version), metadata: { noise: randomBytes(bytes * 0.75).toString('base64') } })
}

async function taking(history: BundleHistory, ...texts: readonly string[]): Promise<void> {
  const intake = new BundleIntake(
    async () => {},
    () => 0,
    [],
    readHere,
    history,
  )
  for (const text of texts) {
    const taken = await intake.offer({ bytes: Buffer.from(text), format: text.startsWith('{') ? 'json' : 'yaml', signature: undefined })
    expect(taken).toMatchObject({ result: 'applied' })
  }
}

/** The text of a bundle, with its credentials, where nobody else asks. */
async function found(history: BundleHistory, version: string): Promise<BundleText> {
  return (await history.text(version, 'credentials')) as BundleText
}

const texts = (history: BundleHistory): (string | false)[] => history.list().map(({ version, hasText }) => hasText && version)

describe('the bundles that were active', () => {
  test('are kept, the newest first, ten of them, each with its text as it came', async () => {
    const history = new BundleHistory(readHere)
    const written = Array.from({ length: 12 }, (_, i) => `# ${i}\r\nbundle_version: "0${i}"\npolicies: [] # ä\n`)
    await taking(history, ...written)
    expect(history.list().map(({ version }) => version)).toEqual(['11', '10', '9', '8', '7', '6', '5', '4', '3', '2'])
    for (const { version } of history.list()) expect((await found(history, version)).text).toBe(written[Number(version)])
    expect(await history.text('1')).toBeUndefined()
    expect(history.before('11')).toBe('10')
    expect(history.before('2')).toBeUndefined()
  })

  test('lose the oldest texts where all of them take too much, never that of the active one', async () => {
    const history = new BundleHistory(readHere, 75_000)
    await taking(history, large(1, 40_000), large(2, 40_000))
    await until(() => texts(history).length === 2)
    expect(texts(history)).toEqual(['2', '1'])
    await taking(history, large(3, 40_000))
    await until(() => texts(history).includes(false))
    expect(texts(history)).toEqual(['3', '2', false])
    await taking(history, large(4, 200_000))
    await until(() => texts(history).filter((text) => text === false).length === 3)
    expect(texts(history)).toEqual(['4', false, false, false])
    expect((await found(history, '4')).text).toHaveLength(history.list()[0]!.byteLength)
    expect(await history.text('3')).toBeUndefined()
    expect(await history.changes('2', '4')).toBeUndefined()
  })

  test('are compared in either direction', async () => {
    const history = new BundleHistory(readHere)
    const rules = [bucketRule('r', [], 5)]
    await taking(
      history,
      JSON.stringify(bundle(1, policy('a', { rules }))),
      JSON.stringify(bundle(2)),
      JSON.stringify(bundle(3, policy('b', { rules }))),
    )
    expect(await history.changes('1', '3')).toMatchObject({ policies: { added: 1, removed: 1 } })
    expect(await history.changes('2', '1')).toMatchObject({ policies: { added: 1, removed: 0 } })
    expect(await history.changes('1', '2')).toMatchObject({ policies: { added: 0, removed: 1 }, policy_changes: [{ policy: 'a' }] })
    expect(history.list().map(({ changes }) => changes?.policies)).toEqual([
      { added: 1, removed: 0, changed: 0, unchanged: 0 },
      { added: 0, removed: 1, changed: 0, unchanged: 0 },
      undefined,
    ])
  })
})

describe('the credentials in a text', () => {
  const YAML = `bundle_version: 1
metadata: { token: &shared "tok\\u0065n" }
policies:
  - id: p
    spec:
      rules:
        - name: a
          match: { bearer: [*shared, 'it''s', plain*], header:x-plan: [gold] }
          limit_keys: []
          algorithm: unlimited
        - name: b
          match:
            "cookie:sid": |-
              long
          limit_keys: []
          algorithm: unlimited
        - { name: c, match: { header:Authorization: "Basic\\tx", bearer: *shared }, limit_keys: [], algorithm: unlimited }
`

  test.each(['', '\ufeff'])('are found in YAML, however they are written, after %j', async (mark) => {
    const history = new BundleHistory(readHere)
    await taking(history, mark + YAML)
    const { text, credentials } = await found(history, '1')
    expect(text).toBe(mark + YAML)
    expect(credentials.map(({ start, end, pattern }) => [text.slice(start, end), pattern])).toEqual([
      ['tok\\u0065n', 'token'],
      ["it''s", "it's"],
      ['plain*', 'plain*'],
      ['              long\n', 'long'],
      ['Basic\\tx', 'Basic\tx'],
    ])
  })

  test('are found in JSON, under keys that are escaped too, and nowhere else', async () => {
    const history = new BundleHistory(readHere)
    const rules = [matching({ bearer: 'one', 'header:x-k': 'bearer' }, bucketRule('bearer', ['bearer'], 5))]
    const text = JSON.stringify(bundle(1, policy('bearer', { rules }))).replace('"bearer":"one"', '"\\u0062earer":["o\\u006ee","two"]')
    await taking(history, text)
    const { credentials } = await found(history, '1')
    expect(credentials.map(({ start, end, pattern }) => [text.slice(start, end), pattern])).toEqual([
      ['o\\u006ee', 'one'],
      ['two', 'two'],
    ])
  })
})
