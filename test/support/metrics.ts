import { ask } from './http.ts'

/** The value of one series, by its name and labels as /metrics writes them; 0 when it is not there. */
export async function metric(port: number, series: string): Promise<number> {
  const { body } = await ask(port, 'GET', '/metrics')
  const line = body.split('\n').find((text) => text.startsWith(`${series} `))
  return line === undefined ? 0 : Number(line.slice(series.length + 1))
}
