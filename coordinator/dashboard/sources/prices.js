/** Amounts of money or per cent in cells, by the rules of `facetd load`: "€10.00", "EUR 10", "12%". */

const CURRENCY =
  "(?:[A-Z]{1,2}\\$|[$£¥฿\\u20a0-\\u20cf]|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|ILS|INR|JPY" +
  "|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|TRY|USD|ZAR)";
const SPACE = "[ \\u00a0\\u2009\\u202f]";
const NUMBER = `(-?[0-9](?:\\S|${SPACE}(?=[0-9]{3}))*?)`;
const AMOUNT = new RegExp(
  `^(?:(-?)(${CURRENCY})${SPACE}?${NUMBER}|${NUMBER}${SPACE}?(${CURRENCY}|%))$`,
);

/** The currency, or "%", and the number of a (trimmed) cell; "" and the cell if it has none. */
export function amountOf(text) {
  const found = AMOUNT.exec(text);
  if (found === null) return ["", text];
  const [, sign, before, number, numberBefore, after] = found;
  return before ? [before, sign + number] : [after, numberBefore];
}
