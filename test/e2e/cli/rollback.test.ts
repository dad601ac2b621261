import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { publishing } from '../../support/admin/published-bundles.ts'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { newSigner } from '../../support/bundles/signing.ts'
import { command } from '../../support/service/command.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

const GOOD = `{ "bundle_version": 41,
  "policies": [{ "id": "api", "spec": { "rules": [
    { "name": "r", "limit_keys": [], "algorithm": "token_bucket", "algorithm_config": { "rate": "9/second" } } ] } }]
}
`
const BAD = GOOD.replace('41', '42').replace('9/second', '1/day')
const BACK = GOOD.replace('41', '43')

describe('edge rollback', () => {
  test('prints the policies of the bundle before under the next version, and changes nothing', async () => {
    const edge = await publishing({}, GOOD, BAD)
    expect(await command('rollback')).toEqual({
      status: 0,
      stdout: BACK,
      stderr: `edge rollback: this is version 43 with the policies of 41; it is not published: edge rollback --publish ${edge.bundlePath} does that\n`,
    })
    expect(await readFile(edge.bundlePath, 'utf8')).toBe(BAD)
  })

  test('--publish writes them to the file of the instance, and waits until they are active', async () => {
    const edge = await publishing({}, GOOD, BAD)
    await chmod(edge.bundlePath, 0o644)
    expect(await command('rollback', '--publish', edge.bundlePath)).toEqual({
      status: 0,
      stdout: 'Version 43 is active, with the policies of 41.\n',
      stderr: '',
    })
    expect(await readFile(edge.bundlePath, 'utf8')).toBe(BACK)
    expect((await stat(edge.bundlePath)).mode & 0o777).toBe(0o644)
    expect((await edge.decide()).headers['ratelimit-limit']).toBe('9')
    expect(await command('rollback', '--publish', edge.bundlePath)).toEqual({
      status: 1,
      stdout: '',
      stderr:
        'edge rollback: version 43 already has the policies of 41: it is what undid 42. To go back further, name a version with --to\n',
    })
    // And back again: the way out of a rollback is another one.
    expect((await command('rollback', '--to', '42', '--publish', edge.bundlePath)).stdout).toBe(
      'Version 44 is active, with the policies of 42.\n',
    )
    expect((await command('rollback', '--to', '041', '--publish', edge.bundlePath)).stdout).toBe(
      'Version 45 is active, with the policies of 41.\n',
    )
  })

  test('YAML keeps its comments, and credentials are there', async () => {
    const path = join(await scratchDirectory(), 'limits.yaml')
    const text = `# who may do what\nbundle_version: 7 # May\npolicies:\n  - id: vip\n    spec:\n      rules: [{ name: r, match: { bearer: hunter2 }, limit_keys: [], algorithm: unlimited }]\n`
    await writeFile(path, text)
    const edge = await publishing({ EDGE_CONFIG_FILE: path })
    await writeFile(path, 'bundle_version: 8\npolicies: []\n')
    await until(() => edge.logged('bundle_applied').length === 2)
    expect((await command('rollback', '--publish', path)).stdout).toBe('Version 9 is active, with the policies of 7.\n')
    expect(await readFile(path, 'utf8')).toBe(text.replace('7 #', '9 #'))
    expect(await untilLogged(edge, 'bundle_text_read')).toHaveLength(1)
    expect(JSON.stringify(edge.log)).not.toContain('hunter2')
  })

  test('the next version is above the one that the source offers in vain, too', async () => {
    const edge = await publishing({}, GOOD, BAD, BAD.replace('42', '77').replace('token_bucket', 'none'))
    const { stdout } = await command('rollback', '--publish', edge.bundlePath)
    expect(stdout).toBe('Version 78 is active, with the policies of 41.\n')
  })
})

describe('edge rollback --publish prints the text and says what remains to be done', () => {
  test('where the instance reads another file', async () => {
    const edge = await publishing({}, GOOD, BAD)
    const other = join(dirname(edge.bundlePath), 'other.json')
    expect(await command('rollback', '--publish', other)).toEqual({
      status: 1,
      stdout: BACK,
      stderr: `edge rollback: this is version 43 with the policies of 41; it is not published: the instance reads ${edge.bundlePath}, not ${other}\n`,
    })
    expect(await stat(other).catch(() => undefined)).toBeUndefined()
  })

  test('where it reads a URL', async () => {
    const server = await BundleServer.start()
    server.publish(GOOD)
    const edge = await publishing({ EDGE_CONFIG_FILE: '', EDGE_CONFIG_URL: server.url, EDGE_CONFIG_POLL_INTERVAL: '1' })
    server.publish(BAD)
    await until(() => edge.logged('bundle_applied').length === 2)
    const file = join(await scratchDirectory(), 'limits.json')
    const { status, stdout, stderr } = await command('rollback', '--publish', file)
    expect({ status, stdout }).toEqual({ status: 1, stdout: BACK })
    expect(stderr).toContain(`it is not published: the instance reads a URL. To publish it, put it where ${server.url}`)
    expect((await command('rollback')).stderr).toContain('it is not published: the instance reads a URL')
  })

  test('where it takes signed bundles only', async () => {
    const signer = newSigner()
    const edge = await publishing({ EDGE_CONFIG_PUBLIC_KEY: signer.publicText })
    for (const [count, text] of [GOOD, BAD].entries()) {
      await writeFile(`${edge.bundlePath}.sig`, signer.sign(text))
      await writeFile(edge.bundlePath, text)
      await until(() => edge.logged('bundle_applied').length === count + 1)
    }
    const { status, stdout, stderr } = await command('rollback', '--publish', edge.bundlePath)
    expect({ status, stdout }).toEqual({ status: 1, stdout: BACK })
    expect(stderr).toContain(
      'the instance takes signed bundles only. To publish it, put it into a file, sign that with edge sign --key KEY FILE',
    )
    expect(await readFile(edge.bundlePath, 'utf8')).toBe(BAD)
  })
})

describe('edge rollback says why not', () => {
  test('without another bundle, and what to do', async () => {
    await publishing({}, GOOD)
    expect((await command('rollback')).stderr).toBe(
      'edge rollback: no other bundle was active since the instance started: take the old policies from where you keep your bundles, and publish them with bundle_version 42\n',
    )
  })

  test('without any bundle', async () => {
    await publishing({})
    expect((await command('rollback')).stderr).toBe('edge rollback: no bundle is active, so there is none to go back from\n')
  })

  test('of versions that it does not have, or that are none', async () => {
    await publishing({}, GOOD, BAD)
    expect((await command('rollback', '--to', '42')).stderr).toBe('edge rollback: version 42 is active\n')
    expect((await command('rollback', '--to', '7')).stderr).toContain('version 7 is not among those that the instance still has (41): take')
    for (const to of ['x', '-1', '1.5', ''])
      expect((await command('rollback', `--to=${to}`)).stderr).toContain('--to: expected a version such as 41')
    expect((await command('rollback', '--publish=')).stderr).toContain('--publish: expected the file that the instance reads')
  })
})
