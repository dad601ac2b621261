import { type Problem, parsePath } from '../text/problem.ts'
import { positionsOf } from '../text/text-positions.ts'
import type { BundleFormat } from './schema/bundle.ts'

/**
 * The same problems with their places in the text, which was parsed without a problem. It takes as long as parsing once more, so it is
 * done only if something is wrong, or worth a warning.
 */
export function locateProblems(problems: readonly Problem[], text: string, format: BundleFormat): Problem[] {
  const source = text.startsWith('\ufeff') ? text.slice(1) : text
  const paths = problems.map(({ path, at }) => parsePath(at ?? path))
  const places = paths.some((path) => path.length > 0) ? positionsOf(source, format, paths) : []
  return problems.map(({ path, message, at, ...found }, i) =>
    // What is said of the whole bundle has no place.
    paths[i]!.length === 0 ? { path, message, ...(at !== undefined && { at }), ...found } : { path, message, ...found, ...places[i]! },
  )
}
