import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { delimiter, join } from 'node:path'
import { describeWith } from '../describe-with.ts'
import { scratchDirectory, thisTest } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { until } from '../until.ts'

/** Debian installs it where not every user looks. */
const ENV = { ...process.env, PATH: [process.env['PATH'] ?? '', '/usr/sbin', '/usr/local/sbin'].join(delimiter) }

/** Tests that need a real nginx. */
export function describeWithNginx(name: string, body: () => void): void {
  const isInstalled = spawnSync('nginx', ['-v'], { env: ENV }).status === 0
  describeWith(isInstalled ? undefined : 'nginx is not installed; on Debian: sh scripts/install-test-parts.sh', name, body)
}

/** nginx with this configuration inside `http`, for as long as the test runs. Answers its port. */
export async function runningNginx(configure: (port: number) => string, owner = thisTest): Promise<number> {
  const [directory, port] = [await scratchDirectory(owner), await serverPort()]
  const file = join(directory, 'nginx.conf')
  await writeFile(file, configuration(directory, configure(port)))
  const child = spawn('nginx', ['-e', 'stderr', '-p', directory, '-c', file], { env: ENV, stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = once(child, 'exit')
  let complaints = ''
  child.stderr.on('data', (text: Buffer) => {
    complaints += text
  })
  owner.onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`nginx does not start: ${complaints}`)
    return isListening(port)
  })
  return port
}

// One process that serves by itself: it ends when it is told to, and nobody else has to be able to write here.
function configuration(directory: string, http: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${directory}/${kind};`)
  return `daemon off;
master_process off;
pid ${directory}/nginx.pid;
error_log stderr emerg;
events { worker_connections 64; }
http {
access_log off;
# More than a decision may have in its head.
large_client_header_buffers 16 16k;
${temporary.join('\n')}
${http}
}
`
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', () => resolve(false))
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
}
