import { execFileSync, spawnSync } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { known } from '../../support/bundles/bundle-url.ts'
import { expectTaken, keyAndBundle } from '../../support/bundles/key-and-bundle.ts'
import { command } from '../../support/service/command.ts'
import { scratchDirectory } from '../../support/service/running.ts'

describe('edge keygen', () => {
  test.for(['key', 'pub'])('leaves a .%s that exists alone, and makes neither', async (ending, t) => {
    const directory = await scratchDirectory(t)
    await writeFile(join(directory, `team.${ending}`), 'precious')
    const { status, stdout, stderr } = await command('keygen', '--out', join(directory, 'team'))
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(`team.${ending}: it already exists, and keys are never overwritten`)
    expect(await readdir(directory)).toEqual([`team.${ending}`])
    expect(await readFile(join(directory, `team.${ending}`), 'utf8')).toBe('precious')
  })
})

describe('edge sign', () => {
  test('is what openssl verifies, and takes what openssl signs with its key', async (t) => {
    t.skip(spawnSync('openssl', ['version']).error !== undefined, 'openssl is not installed')
    const { directory, name, bundlePath, publicText } = await keyAndBundle(t)
    await command('sign', '--key', `${name}.key`, bundlePath)
    const [pem, raw] = [join(directory, 'public.pem'), join(directory, 'raw')]
    execFileSync('openssl', ['pkey', '-in', `${name}.key`, '-pubout', '-out', pem])
    await writeFile(raw, Buffer.from(await readFile(`${bundlePath}.sig`, 'utf8'), 'base64'))
    const verify = ['pkeyutl', '-verify', '-pubin', '-inkey', pem, '-rawin', '-in', bundlePath, '-sigfile', raw]
    expect(execFileSync('openssl', verify).toString()).toContain('Verified Successfully')

    // As docs/operations/signed-bundles.md has it; the text has two lines.
    const signing = 'openssl pkeyutl -sign -rawin -inkey team.key -in bundle.json | openssl base64 > bundle.json.sig'
    execFileSync('sh', ['-c', signing], { cwd: directory })
    expect((await readFile(`${bundlePath}.sig`, 'utf8')).trim().split('\n')).toHaveLength(2)
    for (const key of [publicText, await readFile(pem, 'utf8')]) await expectTaken(bundlePath, key, t)
  })

  test('signs several, and those that are good although another is not', async (t) => {
    const { directory, name, bundlePath } = await keyAndBundle(t)
    const [bad, second] = [join(directory, 'bad.yaml'), join(directory, 'second.json')]
    await writeFile(bad, 'bundle_version: one\npolicies: []\n')
    await writeFile(second, known(2))
    await writeFile(`${second}.sig`, 'an old one')
    const { status, stdout, stderr } = await command('sign', '--key', `${name}.key`, bad, bundlePath, second)
    expect(status).toBe(1)
    expect(stdout).toBe(`${bundlePath}.sig: signature of version 1\n${second}.sig: signature of version 2\n`)
    expect(stderr).toContain(`${bad}:1:1: error: bundle_version: expected`)
    const files = ['bad.yaml', 'bundle.json', 'bundle.json.sig', 'second.json', 'second.json.sig', 'team.key', 'team.pub']
    expect((await readdir(directory)).toSorted()).toEqual(files)
    expect(await readFile(`${second}.sig`, 'utf8')).not.toBe('an old one')
  })

  test('signs a bundle that has warnings, and shows them', async (t) => {
    const { directory, name } = await keyAndBundle(t)
    const path = join(directory, 'odd.json')
    await writeFile(path, '{"bundle_version":1,"policies":[],"description":"x"}')
    const { status, stderr } = await command('sign', '--key', `${name}.key`, path)
    expect(status).toBe(0)
    expect(stderr).toContain(`: warning: unknown field "description"`)
  })
})
