import { execFileSync, spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { fetching, known } from '../../support/bundles/bundle-url.ts'
import { newSigner } from '../../support/bundles/signing.ts'
import { command } from '../../support/service/command.ts'
import { finished, running, scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const RSA_KEY = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey.export({ format: 'pem', type: 'pkcs8' })

describe('edge keygen', () => {
  test('writes a private key for its owner alone and a public key, and prints the setting', async (t) => {
    const name = join(await scratchDirectory(t), 'team')
    const { status, stdout, stderr } = await command('keygen', '--out', name)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const publicText = (await readFile(`${name}.pub`, 'utf8')).trim()
    expect(Buffer.from(publicText, 'base64')).toHaveLength(32)
    expect(stdout).toMatch(new RegExp(`^EDGE_CONFIG_PUBLIC_KEY=${escaped(publicText)}$`, 'm'))
    const privateText = await readFile(`${name}.key`, 'utf8')
    expect(privateText).toMatch(/^-----BEGIN PRIVATE KEY-----\n/)
    expect(stdout).not.toContain(privateText.split('\n')[1])
    expect((await stat(`${name}.key`)).mode & 0o777).toBe(0o600)
  })

  test.for(['key', 'pub'])('leaves a .%s that exists alone, and makes neither', async (ending, t) => {
    const directory = await scratchDirectory(t)
    await writeFile(join(directory, `team.${ending}`), 'precious')
    const { status, stdout, stderr } = await command('keygen', '--out', join(directory, 'team'))
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(`team.${ending}: it already exists, and keys are never overwritten`)
    expect(await readdir(directory)).toEqual([`team.${ending}`])
    expect(await readFile(join(directory, `team.${ending}`), 'utf8')).toBe('precious')
  })

  test.for([
    ['a directory that is not there', ['--out', '/nowhere/at/all'], '/nowhere/at/all.key: its directory does not exist'],
    ['a name that ends in a slash', ['--out', '/nowhere/'], '--out: /nowhere/ is a directory; expected a file name without extension'],
    ['a name that is a directory', ['--out', '.'], '--out: . is a directory; expected a file name without extension'],
    ['no name', ['--out', ''], '--out: expected'],
    ['an option that is none', ['--bits', '4096'], '--bits'],
    ['an argument', ['team'], 'team'],
  ] as const)('%s: 1, named', async ([_what, args, named]) => {
    const { status, stdout, stderr } = await command('keygen', ...args)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(`edge keygen: `)
    expect(stderr).toContain(named)
    expect(stderr).not.toContain('    at ')
  })
})

describe('edge sign', () => {
  test('what it signs, a service with the public key takes, from a file and from a URL', async (t) => {
    const directory = await scratchDirectory(t)
    const [name, bundlePath] = [join(directory, 'team'), join(directory, 'bundle.json')]
    await writeFile(bundlePath, known(1))
    await finished(['keygen', '--out', name], {}, t)
    const publicText = (await readFile(`${name}.pub`, 'utf8')).trim()
    const { status, stdout, stderr } = await finished(['sign', '--key', `${name}.key`, bundlePath], {}, t)
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: `${bundlePath}.sig: signature of version 1\n`, stderr: '' })
    await expectTaken(bundlePath, publicText, t)

    const printed = await command('sign', '--key', `${name}.key`, '--stdout', bundlePath)
    expect({ status: printed.status, stderr: printed.stderr }).toEqual({ status: 0, stderr: '' })
    expect(printed.stdout).toBe(await readFile(`${bundlePath}.sig`, 'utf8'))
    const source = await BundleServer.start(t)
    source.publish(known(1), { signature: printed.stdout.trim() })
    const fromUrl = await fetching(source.url, { EDGE_CONFIG_PUBLIC_KEY: publicText }, t)
    await until(() => fromUrl.logged('bundle_applied').length === 1)
    source.publish(known(2), { signature: printed.stdout.trim() })
    await until(() => fromUrl.logged('bundle_refused').length === 1)
  })

  test('is what openssl verifies, and takes what openssl signs with its key', async (t) => {
    t.skip(spawnSync('openssl', ['version']).error !== undefined, 'openssl is not installed')
    const { directory, name, bundlePath, publicText } = await keyAndBundle(t)
    await command('sign', '--key', `${name}.key`, bundlePath)
    const [pem, raw] = [join(directory, 'public.pem'), join(directory, 'raw')]
    execFileSync('openssl', ['pkey', '-in', `${name}.key`, '-pubout', '-out', pem])
    await writeFile(raw, Buffer.from(await readFile(`${bundlePath}.sig`, 'utf8'), 'base64'))
    const verify = ['pkeyutl', '-verify', '-pubin', '-inkey', pem, '-rawin', '-in', bundlePath, '-sigfile', raw]
    expect(execFileSync('openssl', verify).toString()).toContain('Verified Successfully')

    // As docs/operations.md has it; the text has two lines.
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
    expect(stderr).toContain(`${bad}: error: bundle_version: expected`)
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
    expect(stderr).toContain(`${path}: warning: unknown field "description"`)
  })

  test.for([
    ['no key', ['bundle.json'], 'edge sign: expected --key FILE'],
    ['no bundle', ['--key', 'team.key'], 'edge sign: expected at least one bundle'],
    [
      'two bundles for standard output',
      ['--key', 'team.key', '--stdout', 'bundle.json', 'bundle.json'],
      '--stdout: expected exactly one bundle',
    ],
    ['an option that is none', ['--private-key', 'team.key', 'bundle.json'], '--private-key'],
    ['a key that is not there', ['--key', 'none.key', 'bundle.json'], 'none.key: there is no such file'],
    ['the public key', ['--key', 'team.pub', 'bundle.json'], 'team.pub: it is not an unencrypted private key in PEM format'],
    ['an RSA key', ['--key', 'rsa.key', 'bundle.json'], 'rsa.key: expected an Ed25519 key, got one for rsa'],
    ['a directory for a key', ['--key', '.', 'bundle.json'], ': it is a directory'],
    ['a directory for a bundle', ['--key', 'team.key', '.'], ': it is a directory'],
    ['standard input for a bundle', ['--key', 'team.key', '-'], '-: standard input is not supported'],
    ['a bundle that is not there', ['--key', 'team.key', 'none.json'], 'none.json: there is no such file'],
    ['a bundle whose signature cannot be written', ['--key', 'team.key', 'taken.json'], 'taken.json.sig: it is a directory'],
  ] as const)('%s: 1, named, and nothing is signed', async ([_what, args, named], t) => {
    const { directory } = await keyAndBundle(t)
    await writeFile(join(directory, 'rsa.key'), RSA_KEY)
    await writeFile(join(directory, 'taken.json'), known(1))
    await mkdir(join(directory, 'taken.json.sig'))
    const inside = args.map((arg) => (arg.startsWith('-') ? arg : join(directory, arg)))
    const { status, stdout, stderr } = await command('sign', ...inside)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(named)
    expect(stderr).not.toContain('    at ')
    expect((await readdir(directory)).filter((file) => /\.(?:sig|new)$/.test(file))).toEqual(['taken.json.sig'])
  })
})

/** By a service in this process that goes by this key. */
async function expectTaken(bundlePath: string, publicKey: string, t: TestContext): Promise<void> {
  const edge = await running({ env: { EDGE_CONFIG_FILE: bundlePath, EDGE_CONFIG_PUBLIC_KEY: publicKey } }, t)
  await until(() => edge.log.some(({ event }) => event === 'bundle_applied'))
}

interface Signing {
  readonly directory: string
  readonly name: string
  readonly publicText: string
  readonly bundlePath: string
}

async function keyAndBundle(t: TestContext): Promise<Signing> {
  const directory = await scratchDirectory(t)
  const [name, bundlePath] = [join(directory, 'team'), join(directory, 'bundle.json')]
  const { publicText, privatePem } = newSigner()
  await writeFile(bundlePath, known(1))
  await writeFile(`${name}.key`, privatePem)
  await writeFile(`${name}.pub`, `${publicText}\n`)
  return { directory, name, bundlePath, publicText }
}

function escaped(text: string): string {
  return text.replace(/[+/]/g, '\\$&')
}
