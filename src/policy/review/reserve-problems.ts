import { field, formatPath, isObject, type Path, type Problem } from '../../text/problem.ts'

/** Finds settings that do not go together with `reserve`, or need it. Checks whatever is readable, even if the rest is invalid. */
export function* reserveProblems(rule: unknown, path: Path): Generator<Problem> {
  const algorithm = field(rule, 'algorithm')
  const config = field(rule, 'algorithm_config')
  const streaming = field(config, 'streaming')
  const hasReserve = isObject(field(config, 'reserve'))
  const problem = (at: Path, message: string): Problem => ({ path: formatPath([...path, 'algorithm_config', ...at]), message })
  if (algorithm === 'token_bucket_llm' && hasReserve) {
    if (field(config, 'tokens_per_day') === undefined)
      yield problem(['reserve'], 'expected tokens_per_day beside it, because only a daily budget ends a stream: set one, or remove reserve')
    for (const name of ['enabled', 'enforce_mid_stream']) {
      if (field(streaming, name) === false)
        yield problem(
          ['streaming', name],
          'expected true with reserve, which cuts streams where the budget ends: remove this field, or reserve',
        )
    }
    if (field(field(config, 'count'), 'output') === 0)
      yield problem(
        ['count', 'output'],
        'expected a weight above 0 with reserve, because streams that count nothing never grow: set one, or remove reserve',
      )
  }
  if (algorithm !== 'cost_budget') return
  if (hasReserve && field(config, 'prices') === undefined)
    yield problem(
      ['reserve'],
      'expected prices beside it, because a cost in a header does not grow with the response: set prices, or remove reserve',
    )
  for (const name of ['on_limit_exceeded', 'include_partial_usage']) {
    if (!hasReserve && field(streaming, name) !== undefined)
      yield problem(
        ['streaming', name],
        'expected reserve beside streaming: without it a budget of money never cuts a stream. Add reserve: {}, or remove this field',
      )
  }
}
