import './base.css';
import './comparing.css';
