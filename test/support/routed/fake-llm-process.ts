import { Cli } from '../service/cli.ts'
import { ask } from '../service/http.ts'
import { type Owner, thisTest } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { until } from '../until.ts'

/** `edge fake-llm` in a process of its own that can be stopped and killed, for as long as the test runs. */
export async function fakeLlmProcess(flags: readonly string[] = [], owner: Owner = thisTest): Promise<FakeLlmProcess> {
  const fake = new FakeLlmProcess(await serverPort(), flags)
  owner.onTestFinished(() => fake.kill())
  await fake.start()
  return fake
}

export class FakeLlmProcess {
  readonly port: number
  readonly #flags: readonly string[]
  #cli: Cli | undefined

  constructor(port: number, flags: readonly string[]) {
    this.port = port
    this.#flags = flags
  }

  /** On the same port as before. */
  async start(): Promise<void> {
    this.#cli = new Cli(['fake-llm', '--port', String(this.port), ...this.#flags])
    await until(() =>
      ask(this.port, 'GET', '/fake/usage').then(
        () => true,
        () => false,
      ),
    )
  }

  /** From now on nothing is answered, and connections are still accepted: by the kernel. */
  stop(): void {
    this.#cli!.process.kill('SIGSTOP')
  }

  resume(): void {
    this.#cli!.process.kill('SIGCONT')
  }

  async kill(): Promise<void> {
    await this.#cli?.stop('SIGKILL')
    this.#cli = undefined
  }

  /** What it has served since it was started, as a provider's bill would have it. */
  async usage(): Promise<{ readonly prompt_tokens: number; readonly completion_tokens: number; readonly requests: number }> {
    return JSON.parse((await ask(this.port, 'GET', '/fake/usage')).body)
  }
}
