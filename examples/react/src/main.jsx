import { createRoot } from "react-dom/client";
import { App } from "./App.jsx";
import { createSearchClient } from "./client.js";
import "./style.css";

const searchClient = createSearchClient("/search"); // which vite.config.js passes on to facetd
createRoot(document.getElementById("root")).render(<App searchClient={searchClient} />);
