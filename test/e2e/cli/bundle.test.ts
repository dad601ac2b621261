import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { askAdmin } from '../../support/admin/admin-client.ts'
import { publishing } from '../../support/admin/published-bundles.ts'
import { bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import { command } from '../../support/service/command.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

const indented = (value: object): string => `${JSON.stringify(value, null, 2)}\n`
const FIRST = indented(bundle(41, policy('api', { rules: [bucketRule('per-key', ['header:x-k'], 10, 5)] })))
const SECOND = indented(bundle(42, policy('api', { rules: [bucketRule('per-key', ['header:x-k'], 20, 5)] }), policy('new', { rules: [] })))

/** With times and digests as they look, not as they are. */
function settled(text: string): string {
  return text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME').replaceAll(/[0-9a-f]{12,}/g, 'HASH')
}

describe('edge bundle', () => {
  test('shows what is active, what was, where it comes from and what changed', async () => {
    const edge = await publishing({}, FIRST, SECOND)
    const { status, stdout, stderr } = await command('bundle')
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(settled(stdout)).toBe(
      `active    version 42, 2 policies, since TIME, sha256 HASH
previous  version 41, 1 policy, since TIME, sha256 HASH
source    ${edge.bundlePath}

What version 42 changed: 1 policy added, 1 policy changed
  changed policy api
    changed rule per-key
      algorithm_config.burst: 10 → 20
  added policy new

Active since the start, the newest first
  VERSION  SINCE  POLICIES  WARNINGS  CHANGED
       42  TIME         2         1  1 policy added, 1 policy changed
       41  TIME         1         1  the first one
`.replaceAll('SINCE  ', `SINCE${' '.repeat('2026-11-17T22:00:00Z'.length - 3)}`),
    )
  })

  test('shows what is wrong with the source, and a service without a bundle', async () => {
    const edge = await publishing({})
    expect((await command('bundle')).stdout).toBe(
      `active   none: every request gets 503\nsource   ${edge.bundlePath}\nproblem  there is no such file\n`,
    )
    await edge.publish(FIRST)
    await edge.publish(FIRST.replace('"burst": 10', '"burst": 0').replace('41', '44'))
    const { stdout } = await command('bundle')
    expect(stdout).toContain(`refused  version 44, 1 problem:\n         policies[0].spec.rules[0].algorithm_config.burst: expected`)
    expect(stdout).toMatch(/got 0 \(line 16, column 15\)\n/)
    await edge.publish(FIRST.replace('"burst": 10', '"burst": 11'))
    expect((await command('bundle')).stdout).toContain(
      'To go back, publish the old policies under a higher version: edge rollback (line 2, column 3)\n',
    )
  })

  test('VERSION shows what that one changed, and --json what the API responds', async () => {
    const edge = await publishing({}, FIRST, SECOND, indented(bundle(43)))
    expect((await command('bundle', '42')).stdout).toContain('What version 42 changed since 41: 1 policy added, 1 policy changed\n')
    const { source, ...report } = (await askAdmin(edge.adminPort, 'GET', 'bundle')).json
    // Meanwhile the instance may have looked at its file again.
    const expected = { ...report, source: { ...source, looks: expect.any(Number) as number } }
    expect(JSON.parse((await command('bundle', '--json')).stdout)).toEqual(expected)
    const comparison = (await askAdmin(edge.adminPort, 'GET', 'bundles/42/changes')).json
    expect(JSON.parse((await command('bundle', '42', '--json')).stdout)).toEqual(comparison)
    expect((await command('bundle', '41')).stderr).toContain('the bundle before it is not known')
  })

  test('--text prints the text as it came, of the active one or of another', async () => {
    await publishing({}, FIRST, SECOND)
    expect(await command('bundle', '--text')).toEqual({ status: 0, stdout: SECOND, stderr: '' })
    expect((await command('bundle', '--text', '41')).stdout).toBe(FIRST)
    expect(JSON.parse((await command('bundle', '--text', '41', '--json')).stdout)).toMatchObject({ version: '41', text: FIRST })
    expect(await command('bundle', '--text', '40')).toEqual({
      status: 1,
      stdout: '',
      stderr: 'edge bundle: there is no bundle 40 among the last ten: this instance has 42, 41 (unknown_bundle)\n',
    })
  })

  test('--diff prints the lines that differ', async () => {
    const edge = await publishing({}, FIRST, SECOND)
    const { stdout } = await command('bundle', '--diff')
    expect(stdout).toContain('--- bundle 41\n+++ bundle 42\n@@ -1,5 +1,5 @@\n {\n-  "bundle_version": 41,\n+  "bundle_version": 42,\n')
    expect(stdout).toContain('-              "burst": 10\n+              "burst": 20\n')
    expect((await command('bundle', '--diff', '42', '41')).stdout).toContain('-  "bundle_version": 42,\n+  "bundle_version": 41,\n')
    expect((await command('bundle', '--diff', '42')).stdout).toBe('No differences.\n')
    const comparison = (await askAdmin(edge.adminPort, 'GET', 'bundles/42/changes?from=41')).json
    expect(JSON.parse((await command('bundle', '--diff', '--json')).stdout)).toEqual(comparison)
  })

  test('--diff says so where the texts differ too much to be shown', async () => {
    const noise = (of: string): object => ({ noise: Array.from({ length: 1500 }, (_, i) => `${of} ${i}`) })
    await publishing({}, indented({ ...bundle(1), metadata: noise('a') }), indented({ ...bundle(2), metadata: noise('b') }))
    const { status, stdout, stderr } = await command('bundle', '--diff')
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toMatch(/^edge bundle: the texts differ in too many lines/)
  })

  test('shows credentials as digests, and says so', async () => {
    const rules = [matching({ bearer: ['hunter2', 'hunter3'] }, bucketRule('vip', ['bearer'], 9))]
    await publishing({}, FIRST, indented(bundle(42, policy('api', { rules }))))
    const { stdout, stderr } = await command('bundle', '--text')
    expect(stdout).not.toContain('hunter')
    expect(stderr).toBe('edge bundle: 2 credentials shown as digests\n')
    const difference = await command('bundle', '--diff')
    expect(difference.stdout).not.toContain('hunter')
    expect(difference.stderr).toBe('edge bundle: 2 credentials shown as digests\n')
  })

  test.each([
    [['bundle', 'latest'], 'expected a version such as 41, got "latest"'],
    [['bundle', '1', '2'], 'expected one version at most'],
    [['bundle', '--diff', '1', '2', '3'], 'expected two versions at most'],
    [['bundle', '--diff', '--text'], 'expected --text or --diff, not both'],
  ])('%j is a mistake', async (args, problem) => {
    expect(await command(...args)).toEqual({ status: 1, stdout: '', stderr: `edge bundle: ${problem}; see edge bundle --help\n` })
  })

  test('one bundle has none to compare with, and what would harm a terminal is not printed there', async () => {
    await publishing({}, `{ "bundle_version": 1, "metadata": { "a": "\u009b2J\u202e" },\t"policies": [] }\n`)
    expect((await command('bundle', '--diff')).stderr).toBe('edge bundle: no other bundle was active since the instance started\n')
    expect((await command('bundle', '--text')).stdout).toContain('\u009b2J')
    Object.assign(process.stdout, { isTTY: true })
    onTestFinished(() => void Object.assign(process.stdout, { isTTY: undefined }))
    expect((await command('bundle', '--text')).stdout).toBe(
      '{ "bundle_version": 1, "metadata": { "a": "\\u{9b}2J\\u{202e}" },\t"policies": [] }\n',
    )
  })
})
