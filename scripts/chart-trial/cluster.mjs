// A kube-apiserver with its etcd, on loopback, and a client of it. Nothing runs pods: there is no scheduler, no controller and no kubelet.
import { execFileSync, spawn } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const START_MS = 300_000
const STOP_MS = 30_000

export class Cluster {
  #processes = []
  #directory = mkdtempSync(join(tmpdir(), 'edge-chart-'))
  #token = randomBytes(24).toString('hex')
  #port = 0

  /** Starts the programs in this directory. */
  static async start(programs) {
    const cluster = new Cluster()
    try {
      await cluster.#start(programs)
    } catch (error) {
      await cluster.stop()
      throw error
    }
    return cluster
  }

  /** For helm. */
  get kubeconfig() {
    return join(this.#directory, 'kubeconfig')
  }

  get directory() {
    return this.#directory
  }

  async #start(programs) {
    const [etcdPort, peerPort, port] = await freePorts(3)
    this.#port = port
    const etcd = `http://127.0.0.1:${etcdPort}`
    const peer = `http://127.0.0.1:${peerPort}`
    const { privateKey } = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
      publicKeyEncoding: { type: 'spki', format: 'pem' },
    })
    this.#write('service-accounts.pem', privateKey)
    this.#write('tokens.csv', `${this.#token},trial,trial,system:masters\n`)
    this.#write('kubeconfig', JSON.stringify(this.#clientConfig()))
    this.#run('etcd', join(programs, 'etcd'), [
      ...[`--data-dir=${join(this.#directory, 'etcd')}`, `--listen-client-urls=${etcd}`, `--advertise-client-urls=${etcd}`],
      ...[`--listen-peer-urls=${peer}`, `--initial-advertise-peer-urls=${peer}`, `--initial-cluster=default=${peer}`],
    ])
    this.#run('kube-apiserver', join(programs, 'kube-apiserver'), [
      ...[
        `--etcd-servers=${etcd}`,
        '--bind-address=127.0.0.1',
        `--secure-port=${port}`,
        `--cert-dir=${join(this.#directory, 'certificates')}`,
      ],
      ...[
        `--token-auth-file=${join(this.#directory, 'tokens.csv')}`,
        '--authorization-mode=RBAC',
        '--service-cluster-ip-range=10.0.0.0/24',
      ],
      ...['--service-account-issuer=https://trial.invalid', `--service-account-key-file=${join(this.#directory, 'service-accounts.pem')}`],
      `--service-account-signing-key-file=${join(this.#directory, 'service-accounts.pem')}`,
    ])
    await this.#until('kube-apiserver is ready', async () => (await this.call('GET', '/readyz')).status === 200)
  }

  #clientConfig() {
    return {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'trial', cluster: { server: `https://127.0.0.1:${this.#port}`, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'trial', user: { token: this.#token } }],
      contexts: [{ name: 'trial', context: { cluster: 'trial', user: 'trial' } }],
      'current-context': 'trial',
    }
  }

  #write(name, text) {
    writeFileSync(join(this.#directory, name), text, { mode: 0o600 })
  }

  #run(name, program, args) {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    const log = createWriteStream(join(this.#directory, `${name}.log`))
    child.stdout.pipe(log, { end: false })
    child.stderr.pipe(log, { end: false })
    const exited = new Promise((resolve) => child.once('close', resolve))
    child.once('error', () => {})
    this.#processes.push({ name, child, exited })
  }

  /** One request to the server. A failed connection has status 0. */
  call(method, path, object) {
    const body = object === undefined ? undefined : JSON.stringify(object)
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' }
    return new Promise((resolve) => {
      const asked = request({ host: '127.0.0.1', port: this.#port, method, path, headers, rejectUnauthorized: false }, (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk) => {
          text += chunk
        })
        response.on('end', () => resolve({ status: response.statusCode, warning: response.headers['warning'], json: parsed(text) }))
      })
      asked.on('error', () => resolve({ status: 0, json: undefined }))
      asked.end(body)
    })
  }

  /** Creates an object, or fails with what the server says. */
  async create(path, object) {
    const { status, json } = await this.call('POST', path, object)
    if (status !== 201) throw new Error(`POST ${path}: ${status} ${json?.message}`)
    return json
  }

  /** Teaches the server a kind of object, from its definition. */
  async define(definition) {
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
    const { metadata } = await this.create(path, definition)
    await this.#until(`${metadata.name} is served`, async () => {
      const { json } = await this.call('GET', `${path}/${metadata.name}`)
      return json?.status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True')
    })
  }

  async #until(what, isTrue) {
    const endMs = Date.now() + START_MS
    while (!(await isTrue())) {
      const ended = this.#processes.find(({ child }) => child.exitCode !== null || child.signalCode !== null)
      if (ended !== undefined) throw new Error(`${ended.name} ended: ${lastLines(join(this.#directory, `${ended.name}.log`))}`)
      if (Date.now() > endMs) throw new Error(`Not within ${START_MS / 1000} s: ${what}`)
      await sleep(200)
    }
  }

  /** Ends both programs, the server first, and removes all that they wrote. */
  async stop() {
    for (const { child, exited } of this.#processes.reverse()) {
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      await exited
      clearTimeout(timer)
    }
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

/** Helm against this cluster. Returns its output; what fails throws, with what Helm said. */
export function helmFor(cluster, helm) {
  const env = { ...process.env, KUBECONFIG: cluster.kubeconfig, HELM_CACHE_HOME: cluster.directory, HELM_CONFIG_HOME: cluster.directory }
  return (...args) => execFileSync(helm, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  await Promise.all(servers.map((server) => new Promise((resolve) => server.once('listening', resolve))))
  const ports = servers.map((server) => server.address().port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function lastLines(file) {
  return readFileSync(file, 'utf8').split('\n').slice(-5).join('\n')
}
