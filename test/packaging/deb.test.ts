import { existsSync } from 'node:fs'
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { codeBlocks, readText } from '../docs/markdown.ts'
import {
  DebianMachine,
  debianPackage,
  debianRoot,
  describeWithDebian,
  laterPackage,
  type Reply,
} from '../support/packaging/debian-machine.ts'
import { describeWithRegistry, type Finished, run, succeed } from '../support/packaging/npm.ts'
import { ROOT } from '../support/packaging/source-copy.ts'
import { scratchDirectory, thisTest } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { ownPair } from '../support/tls/tls-edge.ts'
import { until } from '../support/until.ts'

const LIMITED = (version: number): string => `
bundle_version: ${version}
policies:
  - id: everybody
    spec:
      mode: enforce
      selector: { pathPrefix: / }
      rules:
        - { name: all, limit_keys: ["header:x-api-key"], algorithm: token_bucket, algorithm_config: { rate: 5/day } }
`

/** The drop-in of the page. */
const CREDENTIAL_LINES = codeBlocks(readText('docs/operations/systemd.md'), 'ini')[0]!.trim().split('\n').slice(1)

describeWithRegistry('the Debian package', () => {
  const suite = thisSuite()
  let file: string
  beforeAll(async () => {
    file = await debianPackage(ROOT, await scratchDirectory(suite))
  })

  test('is made of the same bytes each time', async () => {
    const again = await debianPackage(ROOT, await scratchDirectory(thisTest))
    const sums = await Promise.all([file, again].map((each) => succeed('/', 'sha256sum', each)))
    expect(new Set(sums.map((line) => line.split(' ')[0])).size).toBe(1)
  })

  describeWithDebian('on Debian', () => {
    let root: string
    /** It takes half a minute of CPU time, while other tests wait for systemd. */
    let lintian: Promise<Finished>
    beforeAll(async () => {
      root = await debianRoot(suite)
      await copyFile(file, join(root, 'edge.deb'))
      // Only this copy is not compressed.
      const suppressed = '--suppress-tags=uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball'
      lintian = run(root, 'chroot', root, 'lintian', '--allow-root', '--fail-on', 'error,warning', suppressed, '/edge.deb')
      suite.onTestFinished(async () => void (await lintian))
    })

    test('is not installed where somebody logs in as the user of the service, and not a bit of it is there then', async () => {
      await succeed(root, 'chroot', root, 'useradd', '--shell', '/bin/bash', 'edge')
      const { status, stderr } = await run(root, 'chroot', root, 'dpkg', '--install', '/edge.deb')
      expect(status).toBe(1)
      expect(stderr).toContain('there is a user edge already, who logs in with /bin/bash')
      expect([existsSync(join(root, 'usr/lib/edge')), existsSync(join(root, 'etc/edge'))]).toEqual([false, false])
      await succeed(root, 'chroot', root, 'userdel', 'edge')
    })

    test('is installed where systemd does not run, and enabled; a unit that was disabled stays so', async () => {
      const enabled = join(root, 'etc/systemd/system/multi-user.target.wants/edge.service')
      await succeed(root, 'chroot', root, 'dpkg', '--install', '/edge.deb')
      expect(await succeed(root, 'chroot', root, 'edge', 'validate', '/etc/edge/bundle.yaml')).toMatch(/: ok\b/)
      expect(await succeed(root, 'chroot', root, 'systemctl', 'is-enabled', 'edge')).toBe('enabled\n')
      await succeed(root, 'chroot', root, 'systemctl', 'disable', 'edge')
      await succeed(root, 'chroot', root, 'dpkg', '--install', '/edge.deb')
      expect((await run(root, 'chroot', root, 'systemctl', 'is-enabled', 'edge')).stdout).toBe('disabled\n')
      await succeed(root, 'chroot', root, 'systemctl', 'enable', 'edge')
      expect(await succeed(root, 'readlink', enabled)).toMatch(/\/lib\/systemd\/system\/edge\.service\n$/)
    })

    test('says how to report a problem to a project without a mail address', async () => {
      const maintainer = (await succeed(root, 'dpkg-deb', '--field', file, 'Maintainer')).trim()
      // A name that by RFC 2606 no host ever has.
      expect(maintainer).toMatch(/<[^@]+@[a-z.]+\.invalid>$/)
      const text = await readFile(join(root, 'usr/share/doc/edge-decision-service/README.Debian'), 'utf8')
      expect(text.replace(/\s+/g, ' ')).toContain(
        "reported on the project's page at GitHub, weaknesses in private, as the file SECURITY.md",
      )
    })

    describe('under systemd', () => {
      let machine: DebianMachine
      beforeAll(async () => {
        await writeFile(join(root, 'etc/edge/bundle.yaml'), LIMITED(1))
        machine = await DebianMachine.boot(root, suite)
      })

      const pid = (): Promise<string> => machine.property('edge', 'MainPID')
      const status = (): Promise<string> => machine.property('edge', 'StatusText')
      const decide = (key: string): Promise<Reply> =>
        machine.request(8080, 'POST', '/v1/decision', { 'X-Original-Method': 'GET', 'X-Original-URI': '/', 'X-Api-Key': key })
      const kill = (signal: string): Promise<string> =>
        machine.succeed('systemctl', 'kill', '--kill-who=main', `--signal=${signal}`, 'edge')
      /** Waits until another process than this is ready. */
      const restarted = (from: string): Promise<void> =>
        until(async () => ![from, '0'].includes(await pid()) && (await machine.property('edge', 'ActiveState')) === 'active')

      test('the unit is hardened, and has no mistake', async () => {
        const { stdout } = await machine.run('systemd-analyze', 'security', '--no-pager', '--threshold=15', 'edge')
        expect(stdout).toMatch(/Overall exposure level for edge\.service: (?:0\.\d|1\.[0-5]) OK/)
        expect(await machine.run('systemd-analyze', 'verify', 'edge.service')).toEqual({ status: 0, stdout: '', stderr: '' })
      })

      test('it starts with the machine, is ready when systemd says so, and runs as a user without privileges', async () => {
        await machine.succeed('systemctl', 'start', 'edge')
        expect(await status()).toBe('Serving by bundle version 1')
        expect(await machine.request(9090, 'GET', '/readyz')).toMatchObject({ status: 200 })
        const facts = await machine.succeed('cat', `/proc/${await pid()}/status`)
        expect(facts).toMatch(/^CapEff:\t0+$/m)
        expect(facts).toMatch(/^CapBnd:\t0+$/m)
        expect(facts).toMatch(/^NoNewPrivs:\t1$/m)
        expect(facts).toMatch(/^Seccomp:\t2$/m)
        expect(await machine.succeed('stat', '--format=%U %a', `/proc/${await pid()}`, '/var/lib/edge')).toBe('edge 555\nedge 700\n')
      })

      test('a reload reads the bundle, and a bundle that is not valid shows in the status', async () => {
        const before = await pid()
        await writeFile(join(root, 'etc/edge/bundle.yaml'), LIMITED(2))
        await machine.succeed('systemctl', 'reload', 'edge')
        await until(async () => (await status()) === 'Serving by bundle version 2')
        await writeFile(join(root, 'etc/edge/bundle.yaml'), 'no: bundle')
        await machine.succeed('systemctl', 'reload', 'edge')
        await until(async () => (await status()).startsWith('Serving by bundle version 2. The source of bundles: '))
        await writeFile(join(root, 'etc/edge/bundle.yaml'), LIMITED(3))
        await machine.succeed('systemctl', 'reload', 'edge')
        await until(async () => (await status()) === 'Serving by bundle version 3')
        expect(await pid()).toBe(before)
      })

      test('a stop drains and exits with 0, and what was counted is there after the next start', async () => {
        const decisions = [await decide('stopped'), await decide('stopped')]
        expect(decisions.map((reply) => reply.headers['ratelimit-remaining'])).toEqual(['4', '3'])
        // The unit allows less than the drain takes: systemd waits because the message that begins the stop asks for it.
        await setting('EDGE_DRAIN_MS', '3000')
        await machine.succeed('systemctl', 'restart', 'edge')
        await dropIn('stop', 'TimeoutStopSec=1s')
        const drained = await pid()
        await kill('SIGTERM')
        await until(async () => (await machine.property('edge', 'ActiveState')) === 'inactive')
        expect(await machine.property('edge', 'Result')).toBe('success')
        expect(await machine.succeed('journalctl', '--no-pager', '--unit', 'edge', `_PID=${drained}`)).toContain('"event":"stopped"')
        await dropIn('stop', undefined)
        await setting('EDGE_DRAIN_MS', undefined)
        await machine.succeed('systemctl', 'start', 'edge')
        expect((await decide('stopped')).headers['ratelimit-remaining']).toBe('2')
        await machine.succeed('systemctl', 'stop', 'edge')
        expect(await machine.property('edge', 'Result')).toBe('success')
        await machine.succeed('systemctl', 'start', 'edge')
        expect((await decide('stopped')).headers['ratelimit-remaining']).toBe('1')
      })

      /** Takes effect at the next start. */
      async function setting(name: string, value: string | undefined): Promise<void> {
        const settings = join(root, 'etc/edge/edge.env')
        const others = (await readFile(settings, 'utf8')).split('\n').filter((line) => line !== '' && !line.startsWith(`${name}=`))
        await writeFile(settings, [...others, ...(value === undefined ? [] : [`${name}=${value}`]), ''].join('\n'))
      }

      /** Changes the unit, as `systemctl edit` does. Without lines, it is as it was. */
      async function dropIn(name: string, ...lines: (string | undefined)[]): Promise<void> {
        const folder = join(root, 'etc/systemd/system/edge.service.d')
        await mkdir(folder, { recursive: true })
        await writeFile(join(folder, `${name}.conf`), ['[Service]', ...lines, ''].join('\n'))
        await machine.succeed('systemctl', 'daemon-reload')
      }

      test('a start that fails is tried again, and the status says why it fails', async () => {
        await setting('EDGE_LOG_LEVEL', 'loud')
        expect((await machine.run('systemctl', 'restart', 'edge')).status).toBe(1)
        await until(async () => /^Cannot start: EDGE_LOG_LEVEL: expected .* got "loud"$/.test(await status()))
        await setting('EDGE_LOG_LEVEL', undefined)
        await until(async () => (await machine.property('edge', 'ActiveState')) === 'active')
        expect(await status()).toBe('Serving by bundle version 3')
      })

      test('without a bundle that it can read it serves nothing, and the status says why', async () => {
        await machine.succeed('chmod', '600', '/etc/edge/bundle.yaml')
        await machine.succeed('systemctl', 'restart', 'edge')
        expect(await status()).toMatch(/^No bundle is loaded, every request gets 503\. The source of bundles: EACCES: .*bundle\.yaml'$/)
        await machine.succeed('chmod', '644', '/etc/edge/bundle.yaml')
        await machine.succeed('systemctl', 'reload', 'edge')
        await until(async () => (await status()) === 'Serving by bundle version 3')
      })

      test('a private key that only root can read is a credential, as the page says', async () => {
        const pair = await ownPair()
        await copyFile(pair.path, join(root, 'etc/edge/tls.crt'))
        await copyFile(pair.keyPath, join(root, 'etc/edge/tls.key'))
        await machine.succeed('chmod', '600', '/etc/edge/tls.key')
        await setting('EDGE_TLS_CERT_FILE', '/etc/edge/tls.crt')
        await setting('EDGE_TLS_KEY_FILE', '/etc/edge/tls.key')
        expect((await machine.run('systemctl', 'restart', 'edge')).status).toBe(1)
        await until(async () => /^Cannot start: .*EACCES.*tls\.key/.test(await status()))
        await setting('EDGE_TLS_KEY_FILE', undefined)
        await dropIn('credential', ...CREDENTIAL_LINES)
        await machine.succeed('systemctl', 'restart', 'edge')
        const asked = `https.get({ port: 8080, agent: false, rejectUnauthorized: false }, (reply) => console.log(reply.resume().statusCode))`
        expect(await machine.succeed('/usr/lib/edge/node', '--eval', asked)).toBe('404\n')
        await dropIn('credential', undefined)
        await setting('EDGE_TLS_CERT_FILE', undefined)
        await machine.succeed('systemctl', 'restart', 'edge')
      })

      test('killed, it starts again', async () => {
        const before = await pid()
        await kill('SIGKILL')
        await restarted(before)
        expect(await machine.property('edge', 'NRestarts')).toBe('1')
        expect((await decide('killed')).status).toBe(200)
      })

      test('when it hangs, the watchdog ends it, and it starts again; while it does not, it lives on', async () => {
        // It pings often, and systemd is patient.
        await dropIn('watchdog', 'WatchdogSec=1h', 'Environment=WATCHDOG_USEC=1500000')
        await machine.succeed('systemctl', 'restart', 'edge')
        const watched = await pid()
        const lastPingUs = async (): Promise<number> => Number(await machine.property('edge', 'WatchdogTimestampMonotonic'))
        const first = await lastPingUs()
        await until(async () => (await lastPingUs()) > first)
        expect(await pid()).toBe(watched)
        await kill('SIGSTOP')
        // From here on no ping comes, however long it takes: now systemd loses patience.
        const group = join('/sys/fs/cgroup', await machine.property('edge', 'ControlGroup'), 'cgroup.procs')
        const impatient = `echo $$ >${group}; NOTIFY_SOCKET=/run/systemd/notify exec systemd-notify WATCHDOG_USEC=1000000`
        await machine.succeed('sh', '-c', impatient)
        await restarted(watched)
        expect(await machine.succeed('journalctl', '--no-pager', '--unit', 'edge')).toContain('Watchdog timeout')
        await dropIn('watchdog', undefined)
      })

      test('an upgrade restarts it, and keeps settings, the bundle and what was counted', async () => {
        expect((await decide('upgraded')).headers['ratelimit-remaining']).toBe('4')
        const before = [await pid(), await readFile(join(root, 'etc/edge/edge.env'), 'utf8')]
        await copyFile(await laterPackage(file, '99.0.0', LIMITED(99), thisTest), join(root, 'later.deb'))
        await machine.succeed('dpkg', '--force-confdef', '--force-confold', '--install', '/later.deb')
        expect(await machine.succeed('dpkg-query', '--show', 'edge-decision-service')).toBe('edge-decision-service\t99.0.0\n')
        expect(await pid()).not.toBe(before[0])
        expect(await readFile(join(root, 'etc/edge/edge.env'), 'utf8')).toBe(before[1])
        expect(await status()).toBe('Serving by bundle version 3')
        expect((await decide('upgraded')).headers['ratelimit-remaining']).toBe('3')
      })

      test('removed, it is stopped and keeps settings and counters; purged, it leaves nothing but its user', async () => {
        await machine.succeed('dpkg', '--remove', 'edge-decision-service')
        expect(await machine.property('edge', 'ActiveState')).toBe('inactive')
        expect([existsSync(join(root, 'usr/lib/edge')), existsSync(join(root, 'etc/edge/edge.env'))]).toEqual([false, true])
        expect(existsSync(join(root, 'var/lib/edge/counters'))).toBe(true)
        await machine.succeed('rm', '-r', '/etc/systemd/system/edge.service.d', '/etc/edge/tls.crt', '/etc/edge/tls.key')
        await machine.succeed('dpkg', '--purge', 'edge-decision-service')
        const left = await machine.succeed('find', '/', '-xdev', '-name', '*edge*', '-not', '-name', '*.deb')
        expect(left).toBe('')
        expect((await machine.run('systemctl', 'list-unit-files', '--no-legend', 'edge.service')).stdout).toBe('')
        expect(await machine.succeed('id', '--user', '--name', 'edge')).toBe('edge\n')
      })

      test('installed again, it starts anew, as the user that there is', async () => {
        const user = await machine.succeed('id', 'edge')
        await machine.succeed('dpkg', '--install', '/edge.deb')
        expect(await machine.succeed('id', 'edge')).toBe(user)
        expect(await status()).toBe('Serving by bundle version 1')
        expect(await machine.succeed('stat', '--format=%U', `/proc/${await pid()}`, '/var/lib/edge')).toBe('edge\nedge\n')
        expect((await decide('anew')).status).toBe(200)
      })
    })

    test('has nothing that lintian objects to', async () => {
      const { status, stdout } = await lintian
      expect([status, stdout]).toEqual([0, ''])
    })
  })
})
