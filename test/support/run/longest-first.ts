import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What takes minutes, wherever it is; then folders of files that take long, and last the many that take a moment. */
const ORDER = [
  /campaigns\/(?:soak|two-downstreams|reload-memory|replay-million|workers|llm-streams|two-wires|explained-requests|simulated-requests)\./,
  /^test\/packaging\//,
  /^test\/campaigns\//,
  /^test\/(?:console|gateways)\//,
  /\.slow\.test\.ts$/,
]

/**
 * Starts what takes longest first, so that no core is idle while another is busy with the last file. Vitest itself does so with what it
 * remembers of the last run, and without that, which a fresh clone has not, by the size of the files.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    // One project after the other, as they come: their files share no worker.
    const projects = [...new Set(sorted.map(({ project }) => project))]
    return projects.flatMap((own) => sorted.filter(({ project }) => project === own).sort((a, b) => this.#placeOf(a) - this.#placeOf(b)))
  }

  #placeOf({ moduleId }: TestSpecification): number {
    const path = relative(this.ctx.config.root, moduleId)
    const place = ORDER.findIndex((pattern) => pattern.test(path))
    return place < 0 ? ORDER.length : place
  }
}
