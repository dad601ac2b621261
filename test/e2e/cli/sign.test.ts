import { generateKeyPairSync } from 'node:crypto'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { fetching, known } from '../../support/bundles/bundle-url.ts'
import { expectTaken, keyAndBundle } from '../../support/bundles/key-and-bundle.ts'
import { command } from '../../support/service/command.ts'
import { finished, scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const RSA_KEY = generateKeyPairSync('rsa', { modulusLength: 512 }).privateKey.export({ format: 'pem', type: 'pkcs8' })

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

function escaped(text: string): string {
  return text.replace(/[+/]/g, '\\$&')
}
